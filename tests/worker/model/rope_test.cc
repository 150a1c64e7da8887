#include "worker/model/rope.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "common/hash/fingerprint.h"
#include "gtest/gtest.h"

namespace qanat::model {
namespace {

TEST(RopeTest, FunctionsAgreeWithTheMathsLibrary) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-30, 30);
  std::uniform_real_distribution<double> turns(-2e5, 2e5);
  for (int i = 0; i < 100000; ++i) {
    const double y = exponent(random);
    EXPECT_NEAR(internal::Exp(y) / std::exp(y), 1, 1e-14) << y;
    EXPECT_NEAR(internal::Log(std::exp(y)), y, 1e-14 * (1 + std::abs(y))) << y;
    const double t = turns(random);
    double cos = 0;
    double sin = 0;
    internal::CosSinOfTurns(t, cos, sin);
    const long double angle = 2 * std::acos(-1.0L) * (static_cast<long double>(t) - std::rint(t));
    EXPECT_NEAR(cos, static_cast<double>(std::cos(angle)), 1e-15) << t;
    EXPECT_NEAR(sin, static_cast<double>(std::sin(angle)), 1e-15) << t;
  }
}

TEST(RopeTest, TableHoldsTheRotationsOfEveryPosition) {
  for (const double base : {10000.0, 100000.0, 1e6}) {
    for (const int head_dim : {32, 64, 80}) {
      const RopeTable table = MakeRopeTable(base, {}, {}, head_dim, 9000);
      const int half = head_dim / 2;
      ASSERT_EQ(table.cos.size(), 9000u * half);
      for (const int position : {0, 1, 2, 63, 1000, 8191}) {
        for (int i = 0; i < half; ++i) {
          const long double angle = position * std::pow(static_cast<long double>(base), -2.0L * i / head_dim);
          EXPECT_NEAR(table.cos[position * half + i], std::cos(angle), 6e-8) << position << " " << i;
          EXPECT_NEAR(table.sin[position * half + i], std::sin(angle), 6e-8) << position << " " << i;
        }
      }
    }
  }
}

// Every frequency of a table, from its last position but one: what `scaled` says, in long double.
void ExpectFrequencies(const RopeTable& table, int half, double magnitude,
                       const std::function<long double(int)>& scaled) {
  const int positions = static_cast<int>(table.cos.size()) / half;
  for (const int position : {1, positions / 2, positions - 1}) {
    for (int i = 0; i < half; ++i) {
      const long double angle = position * scaled(i);
      EXPECT_NEAR(table.cos[position * half + i], magnitude * std::cos(angle), 1e-7) << position << " " << i;
      EXPECT_NEAR(table.sin[position * half + i], magnitude * std::sin(angle), 1e-7) << position << " " << i;
    }
  }
}

TEST(RopeTest, LinearScalingDividesPositions) {
  const auto frequency = [](int i) { return std::pow(1e4L, -2.0L * i / 64); };
  const RopeTable table = MakeRopeTable(1e4, {.kind = RopeScaling::Kind::kLinear, .factor = 4}, {}, 64, 4000);
  ExpectFrequencies(table, 32, 1, [&](int i) { return frequency(i) / 4; });
}

TEST(RopeTest, DivisorsDivideFrequencies) {
  std::vector<float> divisors(32, 1.0f);
  for (int i = 10; i < 32; ++i) divisors[i] = 1 + 0.3f * (i - 10);
  const RopeTable table = MakeRopeTable(5e5, {}, divisors, 64, 4000);
  ExpectFrequencies(table, 32, 1, [&](int i) { return std::pow(5e5L, -2.0L * i / 64) / divisors[i]; });
}

// The pairs that turn 32 times in the original context, and once, bound the ramp: 20.9 and 45.03 of 64 here.
TEST(RopeTest, YarnBlendsBetweenFastAndSlowPairs) {
  const RopeScaling yarn = {
      .kind = RopeScaling::Kind::kYarn, .factor = 8, .original_context = 4096, .attention_factor = 1.5};
  const RopeTable table = MakeRopeTable(1e4, yarn, {}, 128, 32768);
  ExpectFrequencies(table, 64, 1.5 * (1 + 0.1 * std::log(8)), [](int i) {
    const long double kept = std::clamp((46.0L - i) / (46 - 20), 0.0L, 1.0L);
    return std::pow(1e4L, -2.0L * i / 128) * (kept + (1 - kept) / 8);
  });
}

// A base so small that even the first pair turns less than once, and one that leaves no room for a ramp.
TEST(RopeTest, YarnAtItsEdges) {
  RopeScaling yarn = {.kind = RopeScaling::Kind::kYarn, .factor = 2, .original_context = 4};
  const double magnitude = 1 + 0.1 * std::log(2);
  ExpectFrequencies(MakeRopeTable(1e4, yarn, {}, 16, 100), 8, magnitude,
                    [](int i) { return std::pow(1e4L, -2.0L * i / 16) * (i == 0 ? 1 : 0.5L); });
  yarn.original_context = 1 << 24;
  yarn.beta_slow = 32;
  for (const float value : MakeRopeTable(1.01, yarn, {}, 16, 100).cos) EXPECT_TRUE(std::isfinite(value));
}

// The bits themselves: they decide the bits of every key in a cache.
TEST(RopeTest, IsTheSameOnEveryMachine) {
  const RopeTable table = MakeRopeTable(100000, {}, {}, 64, 8192);
  EXPECT_EQ(hash::Fingerprint(absl::MakeSpan(reinterpret_cast<const std::byte*>(table.cos.data()),
                                             table.cos.size() * sizeof(float))),
            "0c070c9fbef85104d22131ebc3b226e5");
  EXPECT_EQ(hash::Fingerprint(absl::MakeSpan(reinterpret_cast<const std::byte*>(table.sin.data()),
                                             table.sin.size() * sizeof(float))),
            "8244462ab745d97ddd313d26015361be");
}

}  // namespace
}  // namespace qanat::model
