#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/embed.h"
#include "kernels/exp2.h"
#include "kernels/kernel_set.h"
#include "tests/kernels/test_data.h"

namespace qanat::kernels {
namespace {

TEST(Exp2Test, IsNearTheExactPowerEverywhere) {
  for (float x = -125.99f; x < 127; x += 0.00317f) {
    ASSERT_NEAR(Exp2(x) / std::exp2(static_cast<double>(x)), 1.0, 1.3e-7) << x;
  }
}

TEST(Exp2Test, IsExactOnIntegersAndDefinedOutside) {
  for (int n = -126; n <= 127; ++n) ASSERT_EQ(Exp2(static_cast<float>(n)), std::ldexp(1.0f, n));
  EXPECT_EQ(Exp2(-126.001f), 0);
  EXPECT_EQ(Exp2(-std::numeric_limits<float>::infinity()), 0);
  EXPECT_EQ(Exp2(1e30f), std::ldexp(1.0f, 127));
  EXPECT_TRUE(std::isnan(Exp2(std::numeric_limits<float>::quiet_NaN())));
}

TEST(HalfTest, EveryHalfBecomesItsValue) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = bits >> 10 & 31;
    const double fraction = bits & 0x3FF;
    const double sign = bits & 0x8000 ? -1 : 1;
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    if (exponent == 31) {
      ASSERT_TRUE(fraction == 0 ? value == sign * INFINITY : std::isnan(value));
    } else {
      const double magnitude =
          exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      ASSERT_EQ(value, static_cast<float>(sign * magnitude)) << bits;
    }
  }
}

TEST(HalfTest, Bf16RoundsToNearestEven) {
  EXPECT_EQ(FloatToBf16(BitsToFloat(0x3F808000u)), 0x3F80);
  EXPECT_EQ(FloatToBf16(BitsToFloat(0x3F808001u)), 0x3F81);
  EXPECT_EQ(FloatToBf16(BitsToFloat(0x3F818000u)), 0x3F82);
  EXPECT_EQ(FloatToBf16(BitsToFloat(0x00018000u)), 0x0002);
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(BitsToFloat(0x7F800001u)))));
}

TEST(RmsNormTest, NormalisesRowsAndPathsAgree) {
  std::mt19937 rng(1);
  for (const int cols : {1, 15, 16, 17, 33, 576, 2048}) {
    const std::vector<float> in = RandomFloats(rng, 3 * cols, 4);
    const std::vector<float> weight = RandomFloats(rng, cols);
    std::vector<float> first;
    for (const KernelSet* path : AllPaths()) {
      std::vector<float> out(3 * cols);
      path->rms_norm({in.data(), weight.data(), out.data(), cols, cols, cols, 1e-5f}, 0, 3);
      if (first.empty()) first = out;
      ASSERT_EQ(out, first) << path->name;
      for (int row = 0; row < 3; ++row) {
        double squares = 0;
        for (int i = 0; i < cols; ++i) squares += double{in[row * cols + i]} * in[row * cols + i];
        for (int i = 0; i < cols; ++i) {
          const double expected = in[row * cols + i] / std::sqrt(squares / cols + 1e-5) * weight[i];
          ASSERT_NEAR(out[row * cols + i], expected, 1e-6 + 1e-6 * std::abs(expected));
        }
      }
      std::vector<float> sum = in;
      std::vector<float> added(3 * cols);
      for (int i = 0; i < 3 * cols; ++i) added[i] = in[i] + out[i];
      path->rms_norm({in.data(), weight.data(), sum.data(), cols, cols, cols, 1e-5f, true}, 0, 3);
      ASSERT_EQ(sum, added) << path->name;
    }
  }
}

TEST(SiluMulTest, EqualsTheDefinitionAndPathsAgree) {
  std::mt19937 rng(2);
  for (const int ffn : {1, 31, 224, 1536}) {
    std::vector<float> gate_up = RandomFloats(rng, 2 * 2 * ffn, 20);
    gate_up[0] = 300;
    gate_up[2 * ffn] = -300;
    std::vector<float> first;
    for (const KernelSet* path : AllPaths()) {
      std::vector<float> out(2 * ffn);
      path->silu_mul({gate_up.data(), out.data(), ffn}, 0, 2);
      if (first.empty()) first = out;
      ASSERT_EQ(std::memcmp(first.data(), out.data(), out.size() * sizeof(float)), 0) << path->name;
      for (int i = 0; i < 2 * ffn; ++i) {
        const double g = gate_up[i / ffn * 2 * ffn + i % ffn];
        const double expected = g / (1 + std::exp(-g)) * gate_up[i / ffn * 2 * ffn + ffn + i % ffn];
        ASSERT_NEAR(out[i], expected, 1e-6 + 1e-5 * std::abs(expected));
      }
    }
  }
}

TEST(GeluMulTest, EqualsTheDefinitionAndPathsAgree) {
  std::mt19937 rng(4);
  for (const int ffn : {1, 31, 224, 1536}) {
    std::vector<float> gate_up = RandomFloats(rng, 2 * 2 * ffn, 3);
    gate_up[0] = 300;
    gate_up[2 * ffn] = -300;
    std::vector<float> first;
    for (const KernelSet* path : AllPaths()) {
      std::vector<float> out(2 * ffn);
      path->gelu_mul({gate_up.data(), out.data(), ffn}, 0, 2);
      if (first.empty()) first = out;
      ASSERT_EQ(std::memcmp(first.data(), out.data(), out.size() * sizeof(float)), 0) << path->name;
      for (int i = 0; i < 2 * ffn; ++i) {
        const double g = gate_up[i / ffn * 2 * ffn + i % ffn];
        const double tanh = std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g));
        const double expected = g / 2 * (1 + tanh) * gate_up[i / ffn * 2 * ffn + ffn + i % ffn];
        ASSERT_NEAR(out[i], expected, 1e-6 + 1e-5 * std::abs(expected)) << g;
      }
    }
  }
}

TEST(EmbedTest, GivesScaledRowsOfTheTable) {
  std::mt19937 rng(3);
  for (const WeightFormat format : kAllFormats) {
    const TestMatrix table = RandomMatrix(rng, format, 50, 256);
    const int32_t ids[] = {49, 0, 17, 17, 31};
    std::vector<float> out(5 * 256);
    Embed({&table.packed, ids, 2.5f, out.data()}, 0, 5);
    for (int i = 0; i < 5 * 256; ++i) {
      ASSERT_EQ(out[i], static_cast<float>(table.values[ids[i / 256] * 256 + i % 256]) * 2.5f)
          << NameOf(format);
    }
  }
}

}  // namespace
}  // namespace qanat::kernels
