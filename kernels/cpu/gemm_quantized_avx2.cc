// Quantised products without VNNI: vpmaddubsw gives 16-bit sums of two products of unsigned codes of the
// weights and signed codes of the activations. It saturates where both are large, so bytes (Q8_0) are taken
// as two nibbles each, and no more lines are added in 16 bits than fit: with codes below 2^bits and |q| <=
// 127, 2 * 127 * (2^bits - 1) a line, eight lines of nibbles, four of 5 bits, two of 6.
//
// A register tile is 4 to 6 rows x 8 columns or up to 3 rows x 16.
#include <immintrin.h>

#include "kernels/cpu/paths.h"
#include "kernels/cpu/unroll.h"

namespace qanat::kernels {
namespace {

constexpr int kHalfColumns = kPanelColumns / 2;

// Half of a panel: 8 columns.
template <WeightFormat kFormat>
struct HalfPanel {
  static constexpr FormatFacts kFacts = FactsOf(kFormat);
  // How a code is cut: a byte has a nibble for each plane.
  static constexpr int kPlanes = kFacts.code_bits == 8 ? 2 : 1;
  static constexpr int kLineBits = kFacts.code_bits == 8 ? 4 : kFacts.code_bits;
  static constexpr int kLinesAGroup = kTileDepth / 4 / kFacts.scale_groups;
  static constexpr int kLinesThatFit = 8 >> (kLineBits - 4);
  static constexpr int kLinesASum = kLinesThatFit < kLinesAGroup ? kLinesThatFit : kLinesAGroup;
  static_assert(kLinesASum * 2 * 127 * ((1 << kLineBits) - 1) <= 32767);

  HalfPanel() = default;
  HalfPanel(const PackedMatrix& weight, int panel, int half)
      : values(PanelValues(weight, panel) + half * 32),
        lower_scales(PanelScales(weight, panel) + half * kHalfColumns),
        block_scales(PanelScales(weight, panel) + half * kHalfColumns * 2) {}

  const std::byte* values = nullptr;
  const std::byte* lower_scales = nullptr;
  const std::byte* block_scales = nullptr;

  // Line `line` of a tile: four codes of each column, each 4 * kPlane bits down.
  template <int kPlane>
  __m256i Line(const std::byte* tile, int line) const {
    const __m256i nibble = _mm256_set1_epi8(15);
    if constexpr (kFacts.code_bits == 8) {
      return _mm256_and_si256(Shifted(LoadLine(tile + line * 64), 4 * kPlane), nibble);
    } else {
      const __m256i low = _mm256_and_si256(Shifted(LoadLine(tile + line / 2 * 64), line % 2 * 4), nibble);
      if constexpr (kFacts.code_bits == 4) {
        return low;
      } else {
        constexpr int kBits = kFacts.code_bits - 4;
        const __m256i plane = LoadLine(tile + kNibbleBytes + line * kBits / 8 * 64);
        const __m256i mask = _mm256_set1_epi8(((1 << kBits) - 1) << 4);
        return _mm256_or_si256(low, _mm256_and_si256(Shifted(plane, line * kBits % 8 - 4), mask));
      }
    }
  }

  // Of the fp16 scales or (kIndex 1) minima of a block, times the lower level.
  template <int kIndex>
  __m256 Level(int64_t tile, int group) const {
    const std::byte* block = block_scales + BlockScalesAt(kFacts, tile) + kIndex * kPanelColumns * 2;
    const __m256 upper = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block)));
    if constexpr (!kFacts.two_levels) {
      return upper;
    } else {
      const std::byte* lower =
          lower_scales + TileScalesAt(kFacts, tile) + (kIndex * kFacts.scale_groups + group) * kPanelColumns;
      const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(lower));
      return _mm256_mul_ps(upper, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)));
    }
  }

 private:
  static __m256i LoadLine(const std::byte* at) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(at));
  }
  // Bits cross the edges of bytes within 16, but none of those that a mask keeps.
  static __m256i Shifted(__m256i codes, int right) {
    return right < 0 ? _mm256_slli_epi16(codes, -right) : _mm256_srli_epi16(codes, right);
  }
};

template <WeightFormat kFormat>
__m256i Correction(const QuantizedCell& cell, int group) {
  constexpr int kZero = FactsOf(kFormat).zero_point;
  static_assert(kZero == 4 || kZero == 8 || kZero == 16 || kZero == 32 || kZero == 128);
  if constexpr (kZero == 4) return _mm256_srai_epi32(_mm256_set1_epi32(cell.minus_32_half_sum[group]), 3);
  if constexpr (kZero == 8) return _mm256_set1_epi32(cell.minus_8_sum);
  if constexpr (kZero == 16) return _mm256_set1_epi32(cell.minus_16_sum);
  if constexpr (kZero == 32) return _mm256_set1_epi32(cell.minus_32_half_sum[group]);
  return _mm256_set1_epi32(cell.minus_128_sum);
}

// The sum of a group's q.
template <WeightFormat kFormat>
__m256 SumOfGroup(const QuantizedCell& cell, int group) {
  if constexpr (FactsOf(kFormat).scale_groups == 1) return _mm256_set1_ps(cell.sum);
  const __m256i sum = _mm256_srai_epi32(_mm256_set1_epi32(cell.minus_32_half_sum[group]), 5);
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_setzero_si256(), sum));
}

__m256i BroadcastCodes(const QuantizedCell& cell, int line) {
  int32_t four;
  __builtin_memcpy(&four, cell.q + 4 * line, 4);
  return _mm256_set1_epi32(four);
}

// A sum is complete here: g++ would otherwise make all products first, in memory, and then add them.
void Settle(__m256i& sum) { __asm__("" : "+x"(sum)); }

// The products of one plane of a group's lines join `dot`, or become it.
template <WeightFormat kFormat, int kPlane, int kRows, int kHalves>
__attribute__((always_inline)) inline void AddPlane(const HalfPanel<kFormat> (&panels)[kHalves], int64_t tile,
                                                    int group, const QuantizedCell* cells,
                                                    __m256i (&dot)[kHalves][kRows]) {
  using Panel = HalfPanel<kFormat>;
  QANAT_UNROLL
  for (int first = 0; first < Panel::kLinesAGroup; first += Panel::kLinesASum) {
    __m256i sums[kHalves][kRows];
    QANAT_UNROLL
    for (int i = 0; i < Panel::kLinesASum; ++i) {
      const int line = group * Panel::kLinesAGroup + first + i;
      __m256i codes[kHalves];
      QANAT_UNROLL
      for (int h = 0; h < kHalves; ++h) {
        codes[h] =
            panels[h].template Line<kPlane>(panels[h].values + tile * Panel::kFacts.tile_value_bytes, line);
      }
      QANAT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m256i a = BroadcastCodes(cells[r], line);
        QANAT_UNROLL
        for (int h = 0; h < kHalves; ++h) {
          const __m256i products = _mm256_maddubs_epi16(codes[h], a);
          sums[h][r] = i == 0 ? products : _mm256_add_epi16(sums[h][r], products);
          Settle(sums[h][r]);
        }
      }
    }
    const __m256i weight = _mm256_set1_epi16(kPlane == 0 ? 1 : 16);
    QANAT_UNROLL
    for (int h = 0; h < kHalves; ++h) {
      QANAT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m256i wide = _mm256_madd_epi16(sums[h][r], weight);
        dot[h][r] = kPlane == 0 && first == 0 ? wide : _mm256_add_epi32(dot[h][r], wide);
      }
    }
  }
}

// A scale group's share of kRows x 8 kHalves outputs.
template <WeightFormat kFormat, int kRows, int kHalves>
__attribute__((always_inline)) inline void AddGroup(const HalfPanel<kFormat> (&panels)[kHalves], int64_t tile,
                                                    int group, const QuantizedCell* cells,
                                                    __m256 (&acc)[kHalves][kRows]) {
  constexpr FormatFacts kFacts = FactsOf(kFormat);
  __m256i dot[kHalves][kRows];
  AddPlane<kFormat, 0>(panels, tile, group, cells, dot);
  if constexpr (HalfPanel<kFormat>::kPlanes == 2) {
    // The lines are read again: there are no registers to keep them in.
    __asm__ volatile("" ::: "memory");
    AddPlane<kFormat, 1>(panels, tile, group, cells, dot);
  }
  QANAT_UNROLL
  for (int h = 0; h < kHalves; ++h) {
    const __m256 d = panels[h].template Level<0>(tile, group);
    QANAT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if constexpr (kFacts.zero_point != 0) {
        dot[h][r] = _mm256_add_epi32(dot[h][r], Correction<kFormat>(cells[r], group));
      }
      const __m256 s = _mm256_mul_ps(d, _mm256_set1_ps(cells[r].scale));
      acc[h][r] = _mm256_fmadd_ps(s, _mm256_cvtepi32_ps(dot[h][r]), acc[h][r]);
    }
  }
  if constexpr (kFacts.has_minimum) {
    QANAT_UNROLL
    for (int h = 0; h < kHalves; ++h) {
      const __m256 m = panels[h].template Level<1>(tile, group);
      QANAT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m256 s = _mm256_mul_ps(m, _mm256_set1_ps(cells[r].scale));
        acc[h][r] = _mm256_fmadd_ps(s, SumOfGroup<kFormat>(cells[r], group), acc[h][r]);
      }
    }
  }
}

void Store(const GemmParams& params, int column, int row, __m256 value) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(params.weight->rows - column), index);
  float* out = params.out + row * params.out_stride + column;
  if (params.accumulate) value = _mm256_add_ps(_mm256_maskload_ps(out, mask), value);
  _mm256_maskstore_ps(out, mask, value);
}

template <WeightFormat kFormat, int kRows, int kHalves>
void Tile(const GemmParams& params, int panel, int half, int row) {
  const int64_t num_tiles = params.weight->num_tiles;
  const QuantizedCell* cells = params.quantized.cells + row / kRowBlock * num_tiles * kRowBlock;
  HalfPanel<kFormat> panels[kHalves];
  for (int h = 0; h < kHalves; ++h) panels[h] = {*params.weight, panel, half + h};
  __m256 acc[kHalves][kRows];
  QANAT_UNROLL
  for (int h = 0; h < kHalves; ++h) {
    QANAT_UNROLL
    for (int r = 0; r < kRows; ++r) acc[h][r] = _mm256_setzero_ps();
  }
  for (int64_t tile = 0; tile < num_tiles; ++tile, cells += kRowBlock) {
    AddGroup<kFormat>(panels, tile, 0, cells, acc);
    if constexpr (FactsOf(kFormat).scale_groups == 2) AddGroup<kFormat>(panels, tile, 1, cells, acc);
  }
  QANAT_UNROLL
  for (int h = 0; h < kHalves; ++h) {
    QANAT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      Store(params, panel * kPanelColumns + (half + h) * kHalfColumns, row + r, acc[h][r]);
    }
  }
}

template <WeightFormat kFormat, int kRows>
void TwoHalves(const GemmParams& params, int panel, int row) {
  Tile<kFormat, kRows, 1>(params, panel, 0, row);
  Tile<kFormat, kRows, 1>(params, panel, 1, row);
}

template <WeightFormat kFormat>
void RowBlock(const GemmParams& params, int panel, int row, int rows) {
  switch (rows) {
    case 1:
      return Tile<kFormat, 1, 2>(params, panel, 0, row);
    case 2:
      return Tile<kFormat, 2, 2>(params, panel, 0, row);
    case 3:
      return Tile<kFormat, 3, 2>(params, panel, 0, row);
    case 4:
      return TwoHalves<kFormat, 4>(params, panel, row);
    case 5:
      return TwoHalves<kFormat, 5>(params, panel, row);
    default:
      return TwoHalves<kFormat, kRowBlock>(params, panel, row);
  }
}

template <WeightFormat kFormat>
void Gemm(const GemmParams& params, const GemmRange& range) {
  for (int panel = range.panel_begin; panel < range.panel_end; ++panel) {
    for (int row = range.row_begin; row < range.row_end; row += kRowBlock) {
      RowBlock<kFormat>(params, panel, row, range.row_end - row);
    }
  }
}

}  // namespace

void Avx2QuantizedGemm(const GemmParams& params, const GemmRange& range) {
  switch (params.weight->format) {
    case WeightFormat::kQ4_0:
      return Gemm<WeightFormat::kQ4_0>(params, range);
    case WeightFormat::kQ4_1:
      return Gemm<WeightFormat::kQ4_1>(params, range);
    case WeightFormat::kQ5_0:
      return Gemm<WeightFormat::kQ5_0>(params, range);
    case WeightFormat::kQ5_1:
      return Gemm<WeightFormat::kQ5_1>(params, range);
    case WeightFormat::kQ8_0:
      return Gemm<WeightFormat::kQ8_0>(params, range);
    case WeightFormat::kQ2_K:
      return Gemm<WeightFormat::kQ2_K>(params, range);
    case WeightFormat::kQ3_K:
      return Gemm<WeightFormat::kQ3_K>(params, range);
    case WeightFormat::kQ4_K:
      return Gemm<WeightFormat::kQ4_K>(params, range);
    case WeightFormat::kQ5_K:
      return Gemm<WeightFormat::kQ5_K>(params, range);
    case WeightFormat::kQ6_K:
      return Gemm<WeightFormat::kQ6_K>(params, range);
    default:
      return;
  }
}

}  // namespace qanat::kernels
