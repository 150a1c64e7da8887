#include "kernels/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/dequantize.h"
#include "kernels/kernel_set.h"
#include "tests/kernels/test_data.h"

namespace qanat::kernels {
namespace {

// A product by one path, from the quantisation of the input on.
std::vector<float> Multiply(const KernelSet& path, const TestMatrix& weight, const std::vector<float>& in,
                            int rows, const std::vector<float>* initial = nullptr) {
  std::vector<QuantizedCell> cells(NumQuantizedCells(rows, weight.cols));
  GemmParams params;
  params.weight = &weight.packed;
  params.in = in.data();
  params.in_stride = weight.cols;
  params.quantized = {cells.data(), weight.cols / kTileDepth};
  if (path.quantizes_activations && FactsOf(weight.format).quantized) {
    path.quantize({in.data(), weight.cols, params.quantized}, 0, rows);
  }
  std::vector<float> out(static_cast<size_t>(rows) * weight.rows, 0.5f);
  if (initial != nullptr) out = *initial;
  params.out = out.data();
  params.out_stride = weight.rows;
  params.accumulate = initial != nullptr;
  auto scratch = Scratch(weight.cols, rows);
  path.gemm(params, {0, NumPanels(weight.rows), 0, rows}, reinterpret_cast<std::byte*>(scratch.data()));
  return out;
}

std::vector<double> Exact(const TestMatrix& weight, const std::vector<float>& in, int rows) {
  std::vector<double> out(static_cast<size_t>(rows) * weight.rows);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < weight.rows; ++c) {
      double sum = 0;
      for (int k = 0; k < weight.cols; ++k)
        sum += weight.values[c * weight.cols + k] * in[r * weight.cols + k];
      out[r * weight.rows + c] = sum;
    }
  }
  return out;
}

// Root mean square of the difference, over that of the exact product.
double RelativeError(const std::vector<double>& exact, const std::vector<float>& got) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    error += (exact[i] - got[i]) * (exact[i] - got[i]);
    norm += exact[i] * exact[i];
  }
  return std::sqrt(error / norm);
}

// Columns of every format's granularity: a few tiles, or up to three stretches of kGemmStretchTiles.
int RandomCols(std::mt19937& rng, WeightFormat format) {
  const int unit = FactsOf(format).block_values;
  if (unit == 1) return 1 + static_cast<int>(rng() % 100);
  const bool several_stretches = rng() % 3 == 0;
  const int tiles = 1 + static_cast<int>(rng() % (several_stretches ? 3 * kGemmStretchTiles : 7));
  return (tiles * kTileDepth + unit - 1) / unit * unit;
}

TEST(RepackTest, RowsReadBackAreTheFilesValues) {
  std::mt19937 rng(1);
  for (const WeightFormat format : kAllFormats) {
    const TestMatrix weight = RandomMatrix(rng, format, 37, 512);
    std::vector<float> row(weight.cols);
    for (int r = 0; r < weight.rows; ++r) {
      DequantizeRow(weight.packed, r, row.data());
      for (int k = 0; k < weight.cols; ++k) {
        ASSERT_EQ(row[k], static_cast<float>(weight.values[r * weight.cols + k]))
            << NameOf(format) << r << " " << k;
      }
    }
  }
}

TEST(GemmTest, ReferenceIsNearTheExactProduct) {
  std::mt19937 rng(2);
  for (const WeightFormat format : kAllFormats) {
    const TestMatrix weight = RandomMatrix(rng, format, 45, 512);
    const std::vector<float> in = RandomFloats(rng, 7 * 512);
    EXPECT_LT(RelativeError(Exact(weight, in, 7), Multiply(ReferenceKernels(), weight, in, 7)), 1e-6)
        << NameOf(format);
  }
}

TEST(GemmTest, FastPathsErrByTheRoundingOfActivationsOnly) {
  std::mt19937 rng(3);
  for (const KernelSet* path : FastPaths()) {
    for (const WeightFormat format : kAllFormats) {
      const TestMatrix weight = RandomMatrix(rng, format, 45, 512);
      const std::vector<float> in = RandomFloats(rng, 7 * 512);
      const double bound = FactsOf(format).quantized ? 0.008 : 1e-6;
      EXPECT_LT(RelativeError(Exact(weight, in, 7), Multiply(*path, weight, in, 7)), bound) << NameOf(format);
    }
  }
}

TEST(GemmTest, EveryPathAndRowCountGivesTheSameBits) {
  std::mt19937 rng(4);
  for (const WeightFormat format : kAllFormats) {
    for (int rows = 1; rows <= 40; ++rows) {
      const TestMatrix weight =
          RandomMatrix(rng, format, 1 + static_cast<int>(rng() % 70), RandomCols(rng, format));
      const std::vector<float> in = RandomFloats(rng, static_cast<size_t>(rows) * weight.cols, 3);
      const std::vector<float> first = Multiply(ScalarKernels(), weight, in, rows);
      for (const KernelSet* path : FastPaths()) {
        ASSERT_EQ(first, Multiply(*path, weight, in, rows)) << path->name << NameOf(format) << rows;
        // The last row alone.
        const std::vector<float> last(in.end() - weight.cols, in.end());
        const std::vector<float> expected(first.end() - weight.rows, first.end());
        ASSERT_EQ(expected, Multiply(*path, weight, last, 1)) << path->name << NameOf(format) << rows;
      }
    }
  }
}

TEST(GemmTest, PartsOfTheRangeGiveTheSameBits) {
  std::mt19937 rng(5);
  for (const KernelSet* path : AllPaths()) {
    for (const WeightFormat format : kAllFormats) {
      const TestMatrix weight = RandomMatrix(rng, format, 100, 256);
      const int rows = 29;
      const std::vector<float> in = RandomFloats(rng, rows * 256);
      std::vector<QuantizedCell> cells(NumQuantizedCells(rows, 256));
      path->quantize({in.data(), 256, {cells.data(), 8}}, 0, rows);
      std::vector<float> out(rows * 100, -1);
      const GemmParams params{&weight.packed, in.data(), 256, {cells.data(), 8}, out.data(), 100, false};
      auto scratch = Scratch(256, rows);
      for (int panel = 0; panel < NumPanels(100); panel += 3) {
        for (int row = 0; row < rows; row += 12) {
          path->gemm(params, {panel, std::min(panel + 3, NumPanels(100)), row, std::min(row + 12, rows)},
                     reinterpret_cast<std::byte*>(scratch.data()));
        }
      }
      EXPECT_EQ(out, Multiply(*path, weight, in, rows)) << path->name << NameOf(format);
    }
  }
}

TEST(GemmTest, AccumulateAddsTheWholeProductOnce) {
  std::mt19937 rng(6);
  for (const KernelSet* path : AllPaths()) {
    for (const WeightFormat format : kAllFormats) {
      const TestMatrix weight = RandomMatrix(rng, format, 41, 256);
      const std::vector<float> in = RandomFloats(rng, 8 * 256);
      const std::vector<float> initial = RandomFloats(rng, 8 * 41);
      const std::vector<float> product = Multiply(*path, weight, in, 8);
      const std::vector<float> sum = Multiply(*path, weight, in, 8, &initial);
      for (size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], initial[i] + product[i]) << path->name << i;
    }
  }
}

// Inputs whose codes are `code`, `code`, -`code`, ... with the period of the signs, and scale 1.
std::vector<float> ExtremeInput(int count, float code, int period) {
  std::vector<float> in(count);
  for (int i = 0; i < count; ++i) in[i] = i / period % 2 == 0 ? code : -code;
  return in;
}

TEST(GemmTest, LargestCodesAndAnyScaleAreExactOnEveryPath) {
  constexpr int kRows = 8, kCols = 512;
  for (const WeightFormat format : kAllFormats) {
    if (!FactsOf(format).quantized) continue;
    for (const int byte : {0x00, 0xFF, 0x80, 0x7F, 0x88}) {
      for (const uint16_t half : {0x0000, 0x0001, 0x3C00, 0xBC01, 0x7BFF}) {
        const TestMatrix weight = UniformMatrix(format, 18, kCols, static_cast<std::byte>(byte), half);
        for (const int period : {1, 2, 3, 32, kRows * kCols}) {
          const std::vector<float> in = ExtremeInput(kRows * kCols, 127, period);
          const std::vector<double> exact = Exact(weight, in, kRows);
          const std::vector<float> first = Multiply(ScalarKernels(), weight, in, kRows);
          // Float32 rounds sums of up to this magnitude; dots are exact.
          const double largest = FactsOf(format).two_levels ? 127 * 32 : 255;
          const double bound = 1e-6 * kCols * 127 * std::abs(double{HalfToFloat(half)}) * largest;
          for (size_t i = 0; i < first.size(); ++i) ASSERT_NEAR(first[i], exact[i], bound) << NameOf(format);
          for (const KernelSet* path : FastPaths()) {
            const std::vector<float> out = Multiply(*path, weight, in, kRows);
            ASSERT_EQ(std::memcmp(first.data(), out.data(), out.size() * sizeof(float)), 0)
                << path->name << NameOf(format) << byte << " " << half << " " << period;
          }
        }
      }
    }
  }
}

TEST(QuantizeTest, PathsAgreeOnEveryMagnitude) {
  std::mt19937 rng(7);
  const std::vector<const KernelSet*> paths = FastPaths();
  for (int trial = 0; trial < 2000; ++trial) {
    const std::vector<float> in =
        RandomFloats(rng, 64, std::ldexp(1.0f, static_cast<int>(rng() % 250) - 140));
    std::vector<QuantizedCell> first(NumQuantizedCells(1, 64)), second(NumQuantizedCells(1, 64));
    ScalarKernels().quantize({in.data(), 64, {first.data(), 2}}, 0, 1);
    for (const KernelSet* path : paths) {
      path->quantize({in.data(), 64, {second.data(), 2}}, 0, 1);
      ASSERT_EQ(std::memcmp(first.data(), second.data(), first.size() * 64), 0) << path->name;
    }
    for (int tile = 0; tile < 2; ++tile) {
      const QuantizedCell& cell = first[tile * kRowBlock];
      int sum = 0;
      for (int i = 0; i < 32; ++i) {
        sum += cell.q[i];
        ASSERT_LE(std::abs(cell.q[i]), 127);
        ASSERT_NEAR(cell.q[i] * double{cell.scale}, in[tile * 32 + i], cell.scale * 0.5001 + 1e-30);
      }
      ASSERT_EQ(cell.sum, sum);
      ASSERT_EQ(cell.minus_8_sum, -8 * sum);
      ASSERT_EQ(cell.minus_16_sum, -16 * sum);
      ASSERT_EQ(cell.minus_128_sum, -128 * sum);
      ASSERT_EQ(cell.minus_32_half_sum[0] + cell.minus_32_half_sum[1], -32 * sum);
    }
  }
}

TEST(QuantizeTest, NonFiniteInputMakesEveryOutputNan) {
  std::mt19937 rng(8);
  for (const KernelSet* path : FastPaths()) {
    for (const float poison :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      const TestMatrix weight = RandomMatrix(rng, WeightFormat::kQ4_1, 20, 64);
      std::vector<float> in = RandomFloats(rng, 3 * 64);
      in[64 + 40] = poison;
      const std::vector<float> out = Multiply(*path, weight, in, 3);
      for (int i = 0; i < 60; ++i) EXPECT_EQ(std::isnan(out[i]), i / 20 == 1) << i;
    }
  }
}

}  // namespace
}  // namespace qanat::kernels
