// Quantised products with vpdpbusd: unsigned codes of the weights times signed codes of the activations.
//
// A register tile is up to 6 rows x 2 panels of 16 columns; of an odd number of panels the last is computed
// twice and stored once. Few rows unpack nibbles in registers. Many rows unpack a stretch of the panels once,
// into scratch that stays in the first-level cache while all rows pass over it; sums are carried from stretch
// to stretch in memory, which changes no bit.
#include <immintrin.h>

#include "kernels/cpu/paths.h"
#include "kernels/cpu/unroll.h"

namespace qanat::kernels {
namespace {

constexpr int kCols = 2;  // panels a register tile spans
constexpr int kUnpackFromRows = 2 * kRowBlock + 1;
constexpr int kStretchTiles = kGemmStretchTiles;
// Row blocks that share the fetching of the next panels.
constexpr int kFetchingBlocks = 3;

// What products of several formats have in common once their tiles are unpacked: zero point, minimum, groups.
constexpr WeightFormat ArithmeticOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ5_1:
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K:
      return WeightFormat::kQ4_1;
    default:
      return format;
  }
}

// A tile unpacked: 8 lines of codes and the float32 scales and minima of its groups.
template <WeightFormat kFormat>
struct alignas(64) UnpackedTile {
  static constexpr FormatFacts kFacts = FactsOf(kFormat);
  __m512i lines[kTileDepth / 4];
  __m512 scales[kFacts.scale_groups];
  __m512 minima[kFacts.has_minimum ? kFacts.scale_groups : 1];
};
static_assert(sizeof(UnpackedTile<WeightFormat::kQ2_K>) <= kUnpackedTileBytes);

__m512 LoadHalves(const std::byte* source) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)));
}

// Line kLine's upper bits, from the plane behind the nibbles: bits 4 and 5 of every byte. A shift of 16-bit
// lanes moves bits over the edges of bytes, but none of those that the mask keeps.
template <int kBits, int kLine>
__m512i UpperBitsOfLine(const std::byte* tile) {
  const __m512i plane = _mm512_load_si512(tile + kNibbleBytes + kLine * kBits / 8 * 64);
  constexpr int kShift = kLine * kBits % 8 - 4;
  const __m512i mask = _mm512_set1_epi8(((1 << kBits) - 1) << 4);
  if constexpr (kShift < 0) {
    return _mm512_and_si512(_mm512_slli_epi16(plane, -kShift), mask);
  } else {
    return _mm512_and_si512(_mm512_srli_epi16(plane, kShift), mask);
  }
}

// Reads tiles as they are packed. Pair<i>(t) gives lines 2 i and 2 i + 1 of tile t.
template <WeightFormat kFormat>
struct PackedPanel {
  static constexpr FormatFacts kFacts = FactsOf(kFormat);
  const std::byte* values;
  const std::byte* scales;

  template <int kPair>
  void Pair(int64_t tile, __m512i& low, __m512i& high) const {
    const std::byte* at = values + tile * kFacts.tile_value_bytes;
    if constexpr (kFacts.code_bits == 8) {
      low = _mm512_load_si512(at + kPair * 128);
      high = _mm512_load_si512(at + kPair * 128 + 64);
    } else {
      const __m512i mask = _mm512_set1_epi8(15);
      const __m512i both = _mm512_load_si512(at + kPair * 64);
      low = _mm512_and_si512(both, mask);
      high = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
      if constexpr (kFacts.code_bits > 4) {
        low = _mm512_or_si512(low, UpperBitsOfLine<kFacts.code_bits - 4, 2 * kPair>(at));
        high = _mm512_or_si512(high, UpperBitsOfLine<kFacts.code_bits - 4, 2 * kPair + 1>(at));
      }
    }
  }

  // Of the fp16 scales or (kIndex 1) minima of a block, times the lower level.
  template <int kIndex>
  __m512 Level(int64_t tile, int group) const {
    const __m512 block = LoadHalves(scales + BlockScalesAt(kFacts, tile) + kIndex * kPanelColumns * 2);
    if constexpr (!kFacts.two_levels) return block;
    const int sub = (kIndex * kFacts.scale_groups + group) * kPanelColumns;
    const __m128i lower =
        _mm_load_si128(reinterpret_cast<const __m128i*>(scales + TileScalesAt(kFacts, tile) + sub));
    return _mm512_mul_ps(block, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(lower)));
  }
  __m512 Scale(int64_t tile, int group) const { return Level<0>(tile, group); }
  __m512 Minimum(int64_t tile, int group) const { return Level<1>(tile, group); }
};

template <WeightFormat kFormat>
struct ScratchPanel {
  const UnpackedTile<kFormat>* tiles;

  template <int kPair>
  void Pair(int64_t tile, __m512i& low, __m512i& high) const {
    low = tiles[tile].lines[2 * kPair];
    high = tiles[tile].lines[2 * kPair + 1];
  }
  __m512 Scale(int64_t tile, int group) const { return tiles[tile].scales[group]; }
  __m512 Minimum(int64_t tile, int group) const { return tiles[tile].minima[group]; }
};

// Memory to be fetched while a tile is computed: `lines` cache lines for each step over the inputs.
struct Ahead {
  const std::byte* next;
  int lines;

  void Fetch() {
    for (int i = 0; i < lines; ++i) _mm_prefetch(reinterpret_cast<const char*>(next + i * 64), _MM_HINT_T1);
    next += lines * 64;
  }
};

template <WeightFormat kFormat>
__m512i Correction(const QuantizedCell& cell, int group) {
  constexpr int kZero = FactsOf(kFormat).zero_point;
  static_assert(kZero == 0 || kZero == 4 || kZero == 8 || kZero == 16 || kZero == 32 || kZero == 128);
  if constexpr (kZero == 4) return _mm512_srai_epi32(_mm512_set1_epi32(cell.minus_32_half_sum[group]), 3);
  if constexpr (kZero == 8) return _mm512_set1_epi32(cell.minus_8_sum);
  if constexpr (kZero == 16) return _mm512_set1_epi32(cell.minus_16_sum);
  if constexpr (kZero == 32) return _mm512_set1_epi32(cell.minus_32_half_sum[group]);
  if constexpr (kZero == 128) return _mm512_set1_epi32(cell.minus_128_sum);
  return _mm512_setzero_si512();
}

// The sum of a group's q.
template <WeightFormat kFormat>
__m512 SumOfGroup(const QuantizedCell& cell, int group) {
  if constexpr (FactsOf(kFormat).scale_groups == 1) return _mm512_set1_ps(cell.sum);
  const __m512i sum = _mm512_srai_epi32(_mm512_set1_epi32(cell.minus_32_half_sum[group]), 5);
  return _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_setzero_si512(), sum));
}

__m512i BroadcastCodes(const QuantizedCell& cell, int line) {
  int32_t four;
  __builtin_memcpy(&four, cell.q + 4 * line, 4);
  return _mm512_set1_epi32(four);
}

// The dot products of two lines.
template <int kPair, int kRows, typename Panel>
__attribute__((always_inline)) inline void AddPair(const Panel (&panels)[kCols], int64_t tile,
                                                   const QuantizedCell* cells, __m512i (&dot)[kCols][kRows]) {
  __m512i low[kCols], high[kCols];
  QANAT_UNROLL
  for (int c = 0; c < kCols; ++c) panels[c].template Pair<kPair>(tile, low[c], high[c]);
  QANAT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const __m512i a = BroadcastCodes(cells[r], 2 * kPair);
    QANAT_UNROLL
    for (int c = 0; c < kCols; ++c) dot[c][r] = _mm512_dpbusd_epi32(dot[c][r], low[c], a);
  }
  QANAT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const __m512i a = BroadcastCodes(cells[r], 2 * kPair + 1);
    QANAT_UNROLL
    for (int c = 0; c < kCols; ++c) dot[c][r] = _mm512_dpbusd_epi32(dot[c][r], high[c], a);
  }
}

// A scale group's dot products join the sums, then the minimum's share.
template <WeightFormat kFormat, int kRows, typename Panel>
__attribute__((always_inline)) inline void AddScaled(const Panel (&panels)[kCols], int64_t tile, int group,
                                                     const QuantizedCell* cells,
                                                     const __m512i (&dot)[kCols][kRows],
                                                     __m512 (&acc)[kCols][kRows]) {
  QANAT_UNROLL
  for (int c = 0; c < kCols; ++c) {
    const __m512 d = panels[c].Scale(tile, group);
    QANAT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m512 s = _mm512_mul_ps(d, _mm512_set1_ps(cells[r].scale));
      acc[c][r] = _mm512_fmadd_ps(s, _mm512_cvtepi32_ps(dot[c][r]), acc[c][r]);
    }
  }
  if constexpr (FactsOf(kFormat).has_minimum) {
    QANAT_UNROLL
    for (int c = 0; c < kCols; ++c) {
      const __m512 m = panels[c].Minimum(tile, group);
      QANAT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m512 s = _mm512_mul_ps(m, _mm512_set1_ps(cells[r].scale));
        acc[c][r] = _mm512_fmadd_ps(s, SumOfGroup<kFormat>(cells[r], group), acc[c][r]);
      }
    }
  }
}

template <WeightFormat kFormat, int kRows>
__attribute__((always_inline)) inline void StartGroup(const QuantizedCell* cells, int group,
                                                      __m512i (&dot)[kCols][kRows]) {
  QANAT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QANAT_UNROLL
    for (int c = 0; c < kCols; ++c) dot[c][r] = Correction<kFormat>(cells[r], group);
  }
}

// One tile's share of kRows x kCols outputs.
template <WeightFormat kFormat, int kRows, typename Panel>
__attribute__((always_inline)) inline void AddTile(const Panel (&panels)[kCols], int64_t tile,
                                                   const QuantizedCell* cells, __m512 (&acc)[kCols][kRows]) {
  __m512i dot[kCols][kRows];
  StartGroup<kFormat>(cells, 0, dot);
  AddPair<0>(panels, tile, cells, dot);
  AddPair<1>(panels, tile, cells, dot);
  if constexpr (FactsOf(kFormat).scale_groups == 2) {
    AddScaled<kFormat>(panels, tile, 0, cells, dot, acc);
    StartGroup<kFormat>(cells, 1, dot);
  }
  AddPair<2>(panels, tile, cells, dot);
  AddPair<3>(panels, tile, cells, dot);
  AddScaled<kFormat>(panels, tile, FactsOf(kFormat).scale_groups - 1, cells, dot, acc);
}

void Store(const GemmParams& params, int panel, int row, __m512 value) {
  const int columns = params.weight->rows - panel * kPanelColumns;
  const __mmask16 mask = columns >= kPanelColumns ? 0xFFFF : static_cast<__mmask16>((1u << columns) - 1);
  float* out = params.out + row * params.out_stride + panel * kPanelColumns;
  if (params.accumulate) value = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, out), value);
  _mm512_mask_storeu_ps(out, mask, value);
}

// Tiles [begin, end) of the inputs, and where the sums of one row block wait between stretches.
struct Stretch {
  int begin;
  int end;
  int columns;   // of kCols panels those that are stored
  __m512* sums;  // [kCols][kRows]
  Ahead ahead;
};

template <WeightFormat kFormat, int kRows, typename Panel>
void Tile(const GemmParams& params, const Panel (&panels)[kCols], int panel, int row, Stretch stretch) {
  const int64_t num_tiles = params.weight->num_tiles;
  const QuantizedCell* cells = params.quantized.cells + row / kRowBlock * num_tiles * kRowBlock;
  __m512 acc[kCols][kRows];
  QANAT_UNROLL
  for (int c = 0; c < kCols; ++c) {
    QANAT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      acc[c][r] = stretch.begin == 0 ? _mm512_setzero_ps() : stretch.sums[c * kRows + r];
    }
  }
  for (int64_t tile = stretch.begin; tile < stretch.end; ++tile) {
    stretch.ahead.Fetch();
    AddTile<kFormat, kRows>(panels, tile, cells + tile * kRowBlock, acc);
  }
  QANAT_UNROLL
  for (int c = 0; c < kCols; ++c) {
    QANAT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if (stretch.end == num_tiles) {
        if (c < stretch.columns) Store(params, panel + c, row + r, acc[c][r]);
      } else {
        stretch.sums[c * kRows + r] = acc[c][r];
      }
    }
  }
}

template <WeightFormat kFormat, typename Panel>
void RowBlock(const GemmParams& params, const Panel (&panels)[kCols], int panel, int row, int rows,
              const Stretch& stretch) {
  switch (rows) {
    case 1:
      return Tile<kFormat, 1>(params, panels, panel, row, stretch);
    case 2:
      return Tile<kFormat, 2>(params, panels, panel, row, stretch);
    case 3:
      return Tile<kFormat, 3>(params, panels, panel, row, stretch);
    case 4:
      return Tile<kFormat, 4>(params, panels, panel, row, stretch);
    case 5:
      return Tile<kFormat, 5>(params, panels, panel, row, stretch);
    default:
      return Tile<kFormat, kRowBlock>(params, panels, panel, row, stretch);
  }
}

// All rows of the range over tiles [begin, end) of kCols panels; `sums` holds 12 vectors a row block.
template <WeightFormat kFormat, typename Panel>
void AllRows(const GemmParams& params, const Panel (&panels)[kCols], int panel, const GemmRange& range,
             int begin, int end, __m512* sums) {
  const PackedMatrix& weight = *params.weight;
  const int columns = range.panel_end - panel < kCols ? range.panel_end - panel : kCols;
  const int blocks = (range.row_end - range.row_begin + kRowBlock - 1) / kRowBlock;
  const int fetching = blocks < kFetchingBlocks ? blocks : kFetchingBlocks;
  const int64_t lines_a_tile =
      (kCols * weight.panel_bytes / 64 / fetching + weight.num_tiles - 1) / weight.num_tiles;
  const std::byte* next =
      PanelValues(weight, panel + kCols < range.panel_end ? panel + kCols : range.next_panel);
  for (int block = 0; block < blocks; ++block) {
    const int row = range.row_begin + block * kRowBlock;
    const int rows = range.row_end - row < kRowBlock ? range.row_end - row : kRowBlock;
    const int64_t fetched = (static_cast<int64_t>(block) * weight.num_tiles + begin) * lines_a_tile * 64;
    const int lines = block < fetching ? static_cast<int>(lines_a_tile) : 0;
    RowBlock<kFormat>(params, panels, panel, row, rows,
                      {begin, end, columns, sums + block * kCols * kRowBlock, {next + fetched, lines}});
  }
}

// Tiles [begin, end) to out[0] and on.
template <WeightFormat kFormat>
void Unpack(const PackedPanel<kFormat>& panel, int begin, int end, UnpackedTile<ArithmeticOf(kFormat)>* out) {
  constexpr FormatFacts kFacts = FactsOf(kFormat);
  for (int64_t tile = begin; tile < end; ++tile, ++out) {
    panel.template Pair<0>(tile, out->lines[0], out->lines[1]);
    panel.template Pair<1>(tile, out->lines[2], out->lines[3]);
    panel.template Pair<2>(tile, out->lines[4], out->lines[5]);
    panel.template Pair<3>(tile, out->lines[6], out->lines[7]);
    for (int group = 0; group < kFacts.scale_groups; ++group) {
      out->scales[group] = panel.Scale(tile, group);
      if constexpr (kFacts.has_minimum) out->minima[group] = panel.Minimum(tile, group);
    }
  }
}

template <WeightFormat kFormat>
void UnpackedColumns(const GemmParams& params, const PackedPanel<kFormat> (&packed)[kCols], int panel,
                     const GemmRange& range, std::byte* scratch) {
  constexpr WeightFormat kArithmetic = ArithmeticOf(kFormat);
  const auto tiles = reinterpret_cast<UnpackedTile<kArithmetic>*>(scratch);
  const int num_tiles = params.weight->num_tiles;
  const int stretches = (num_tiles + kStretchTiles - 1) / kStretchTiles;
  const int step = (num_tiles + stretches - 1) / stretches;
  __m512* sums = reinterpret_cast<__m512*>(tiles + kCols * kStretchTiles);
  for (int begin = 0; begin < num_tiles; begin += step) {
    const int end = begin + step < num_tiles ? begin + step : num_tiles;
    ScratchPanel<kArithmetic> panels[kCols];
    for (int c = 0; c < kCols; ++c) {
      Unpack<kFormat>(packed[c], begin, end, tiles + c * step);
      panels[c].tiles = tiles + c * step - begin;
    }
    AllRows<kArithmetic>(params, panels, panel, range, begin, end, sums);
  }
}

template <WeightFormat kFormat>
void Columns(const GemmParams& params, int panel, const GemmRange& range, std::byte* scratch) {
  PackedPanel<kFormat> panels[kCols];
  for (int c = 0; c < kCols; ++c) {
    const int source = panel + c < range.panel_end ? panel + c : panel;
    panels[c] = {PanelValues(*params.weight, source), PanelScales(*params.weight, source)};
  }
  if constexpr (FactsOf(kFormat).code_bits != 8) {
    if (range.row_end - range.row_begin >= kUnpackFromRows) {
      return UnpackedColumns<kFormat>(params, panels, panel, range, scratch);
    }
  }
  AllRows<kFormat>(params, panels, panel, range, 0, params.weight->num_tiles, nullptr);
}

template <WeightFormat kFormat>
void Gemm(const GemmParams& params, const GemmRange& range, std::byte* scratch) {
  for (int panel = range.panel_begin; panel < range.panel_end; panel += kCols) {
    Columns<kFormat>(params, panel, range, scratch);
  }
}

}  // namespace

void Avx512QuantizedGemm(const GemmParams& params, const GemmRange& range, std::byte* scratch) {
  switch (params.weight->format) {
    case WeightFormat::kQ4_0:
      return Gemm<WeightFormat::kQ4_0>(params, range, scratch);
    case WeightFormat::kQ4_1:
      return Gemm<WeightFormat::kQ4_1>(params, range, scratch);
    case WeightFormat::kQ5_0:
      return Gemm<WeightFormat::kQ5_0>(params, range, scratch);
    case WeightFormat::kQ5_1:
      return Gemm<WeightFormat::kQ5_1>(params, range, scratch);
    case WeightFormat::kQ8_0:
      return Gemm<WeightFormat::kQ8_0>(params, range, scratch);
    case WeightFormat::kQ2_K:
      return Gemm<WeightFormat::kQ2_K>(params, range, scratch);
    case WeightFormat::kQ3_K:
      return Gemm<WeightFormat::kQ3_K>(params, range, scratch);
    case WeightFormat::kQ4_K:
      return Gemm<WeightFormat::kQ4_K>(params, range, scratch);
    case WeightFormat::kQ5_K:
      return Gemm<WeightFormat::kQ5_K>(params, range, scratch);
    case WeightFormat::kQ6_K:
      return Gemm<WeightFormat::kQ6_K>(params, range, scratch);
    default:
      return;
  }
}

}  // namespace qanat::kernels
