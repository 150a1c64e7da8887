// Products with float weights: a fma chain per output over the inputs in ascending order, 16 outputs a
// vector.
#include <immintrin.h>

#include "kernels/cpu/paths.h"
#include "kernels/cpu/unroll.h"

namespace qanat::kernels {
namespace {

constexpr int kColumnTiles = 2;

template <WeightFormat kFormat>
__m512 LoadLine(const std::byte* values, int64_t k) {
  const std::byte* line = values + k * FactsOf(kFormat).tile_value_bytes;
  if constexpr (kFormat == WeightFormat::kF32) return _mm512_load_ps(line);
  const __m256i halves = _mm256_load_si256(reinterpret_cast<const __m256i*>(line));
  if constexpr (kFormat == WeightFormat::kF16) return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

void Store(const GemmParams& params, int panel, int row, __m512 value) {
  const int columns = params.weight->rows - panel * kPanelColumns;
  const __mmask16 mask = columns >= kPanelColumns ? 0xFFFF : static_cast<__mmask16>((1u << columns) - 1);
  float* out = params.out + row * params.out_stride + panel * kPanelColumns;
  if (params.accumulate) value = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, out), value);
  _mm512_mask_storeu_ps(out, mask, value);
}

template <WeightFormat kFormat, int kRows, int kCols>
void Tile(const GemmParams& params, int panel, int row) {
  const std::byte* values[kCols];
  const float* in[kRows];
  __m512 acc[kCols][kRows];
  for (int c = 0; c < kCols; ++c) values[c] = PanelValues(*params.weight, panel + c);
  for (int r = 0; r < kRows; ++r) in[r] = params.in + (row + r) * params.in_stride;
  QANAT_UNROLL
  for (int c = 0; c < kCols; ++c) {
    QANAT_UNROLL
    for (int r = 0; r < kRows; ++r) acc[c][r] = _mm512_setzero_ps();
  }
  for (int64_t k = 0; k < params.weight->cols; ++k) {
    __m512 weight[kCols];
    QANAT_UNROLL
    for (int c = 0; c < kCols; ++c) weight[c] = LoadLine<kFormat>(values[c], k);
    QANAT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m512 x = _mm512_set1_ps(in[r][k]);
      QANAT_UNROLL
      for (int c = 0; c < kCols; ++c) acc[c][r] = _mm512_fmadd_ps(weight[c], x, acc[c][r]);
    }
  }
  QANAT_UNROLL
  for (int c = 0; c < kCols; ++c) {
    QANAT_UNROLL
    for (int r = 0; r < kRows; ++r) Store(params, panel + c, row + r, acc[c][r]);
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

void Avx512FloatGemm(const GemmParams& params, const GemmRange& range) {
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

}  // namespace qanat::kernels
