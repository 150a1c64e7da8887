// Products with float weights: a fma chain per output over the inputs in ascending order, 16 outputs a
// vector.
#include "kernels/cpu/paths.h"
#include "kernels/cpu/unroll.h"
#include "kernels/cpu/vectors.h"

namespace qanat::kernels::QANAT_KERNEL_ISA {
namespace {

constexpr int kColumnTiles = kAccumulators >= 2 * kRowBlock ? 2 : 1;

template <WeightFormat kFormat>
Floats LoadLine(const std::byte* values, int64_t k) {
  const std::byte* line = values + k * FactsOf(kFormat).tile_value_bytes;
  if constexpr (kFormat == WeightFormat::kF32) return Load(reinterpret_cast<const float*>(line));
  return kFormat == WeightFormat::kF16 ? LoadHalves(line) : LoadBf16(line);
}

void StoreColumns(const GemmParams& params, int panel, int row, Floats value) {
  const Lanes lanes = FirstLanes(params.weight->rows - panel * kPanelColumns);
  float* out = params.out + row * params.out_stride + panel * kPanelColumns;
  if (params.accumulate) value = Add(LoadSome(lanes, out), value);
  StoreSome(lanes, out, value);
}

template <WeightFormat kFormat, int kRows, int kCols>
void Tile(const GemmParams& params, int panel, int row) {
  const std::byte* values[kCols];
  const float* in[kRows];
  Floats acc[kCols][kRows];
  for (int c = 0; c < kCols; ++c) values[c] = PanelValues(*params.weight, panel + c);
  for (int r = 0; r < kRows; ++r) in[r] = params.in + (row + r) * params.in_stride;
  QANAT_UNROLL
  for (int c = 0; c < kCols; ++c) {
    QANAT_UNROLL
    for (int r = 0; r < kRows; ++r) acc[c][r] = Zero();
  }
  for (int64_t k = 0; k < params.weight->cols; ++k) {
    Floats weight[kCols];
    QANAT_UNROLL
    for (int c = 0; c < kCols; ++c) weight[c] = LoadLine<kFormat>(values[c], k);
    QANAT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Floats x = Broadcast(in[r][k]);
      QANAT_UNROLL
      for (int c = 0; c < kCols; ++c) acc[c][r] = Fma(weight[c], x, acc[c][r]);
    }
  }
  QANAT_UNROLL
  for (int c = 0; c < kCols; ++c) {
    QANAT_UNROLL
    for (int r = 0; r < kRows; ++r) StoreColumns(params, panel + c, row + r, acc[c][r]);
  }
}

template <WeightFormat kFormat, int kCols>
void Columns(const GemmParams& params, int panel, const GemmRange& range) {
  int row = range.row_begin;
  for (; row + kRowBlock <= range.row_end; row += kRowBlock)
    Tile<kFormat, kRowBlock, kCols>(params, panel, row);
  for (; row + 2 <= range.row_end; row += 2) Tile<kFormat, 2, kCols>(params, panel, row);
  for (; row < range.row_end; ++row) Tile<kFormat, 1, kCols>(params, panel, row);
}

template <WeightFormat kFormat>
void Gemm(const GemmParams& params, const GemmRange& range) {
  int panel = range.panel_begin;
  for (; panel + kColumnTiles <= range.panel_end; panel += kColumnTiles) {
    Columns<kFormat, kColumnTiles>(params, panel, range);
  }
  for (; panel < range.panel_end; ++panel) Columns<kFormat, 1>(params, panel, range);
}

}  // namespace

void FloatGemm(const GemmParams& params, const GemmRange& range) {
  switch (params.weight->format) {
    case WeightFormat::kF32:
      return Gemm<WeightFormat::kF32>(params, range);
    case WeightFormat::kF16:
      return Gemm<WeightFormat::kF16>(params, range);
    case WeightFormat::kBF16:
      return Gemm<WeightFormat::kBF16>(params, range);
    default:
      return;
  }
}

}  // namespace qanat::kernels::QANAT_KERNEL_ISA
