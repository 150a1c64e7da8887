// Quantised products with vpdpbusd: unsigned codes of the weights times signed codes of the activations.
//
// A register tile is up to 6 rows x 2 panels of 16 columns. Few rows unpack nibbles in registers. Many rows
// unpack a stretch of the panels once, into scratch that stays in the first-level cache while all rows pass
// over it; sums are carried from stretch to stretch in memory, which changes no bit.
#include <immintrin.h>

#include "kernels/cpu/paths.h"
#include "kernels/cpu/unroll.h"

namespace qanat::kernels {
namespace {

constexpr int kColumnTiles = 2;
constexpr int kUnpackFromRows = 2 * kRowBlock + 1;
constexpr int kStretchTiles = kGemmStretchTiles;
// Row blocks that share the fetching of the next panels.
constexpr int kFetchingBlocks = 3;

// A tile unpacked: 8 lines of codes and two of float32 scales (d and m, or the d of both halves).
struct alignas(64) UnpackedTile {
  __m512i lines[kTileDepth / 4];
  __m512 scales[2];
};
static_assert(sizeof(UnpackedTile) * kColumnTiles <= kTileDepth * kPanelColumns * 4,
              "GemmScratchBytes is too small");

__m512 LoadHalves(const std::byte* source) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)));
}

// Reads tiles as they are packed. Pair(t, i) gives lines 2 i and 2 i + 1 of tile t.
template <WeightFormat kFormat>
struct PackedPanel {
  static constexpr FormatFacts kFacts = FactsOf(kFormat);
  const std::byte* values;
  const std::byte* scales;

  void Pair(int64_t tile, int pair, __m512i& low, __m512i& high) const {
    constexpr bool kNibbles = kFacts.tile_value_bytes == 256;
    const std::byte* line = values + tile * kFacts.tile_value_bytes + pair * (kNibbles ? 64 : 128);
    low = _mm512_load_si512(line);
    if constexpr (kNibbles) {
      const __m512i mask = _mm512_set1_epi8(15);
      high = _mm512_and_si512(_mm512_srli_epi16(low, 4), mask);
      low = _mm512_and_si512(low, mask);
    } else {
      high = _mm512_load_si512(line + 64);
    }
  }

  __m512 Scale(int64_t tile, int group) const {
    const std::byte* scale = scales + tile * kFacts.tile_scale_bytes;
    if constexpr (kFacts.scale_groups == 1) return LoadHalves(scale);
    const __m128i sub = _mm_load_si128(reinterpret_cast<const __m128i*>(scale + group * kPanelColumns));
    return _mm512_mul_ps(LoadHalves(scale + 2 * kPanelColumns),
                         _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sub)));
  }

  __m512 Minimum(int64_t tile) const { return LoadHalves(scales + tile * kFacts.tile_scale_bytes + 32); }
};

struct ScratchPanel {
  const UnpackedTile* tiles;

  void Pair(int64_t tile, int pair, __m512i& low, __m512i& high) const {
    low = tiles[tile].lines[2 * pair];
    high = tiles[tile].lines[2 * pair + 1];
  }
  __m512 Scale(int64_t tile, int group) const { return tiles[tile].scales[group]; }
  __m512 Minimum(int64_t tile) const { return tiles[tile].scales[1]; }
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
  if constexpr (kZero == 8) return _mm512_set1_epi32(cell.minus_8_sum);
  if constexpr (kZero == 128) return _mm512_set1_epi32(cell.minus_128_sum);
  if constexpr (kZero == 32) return _mm512_set1_epi32(cell.minus_32_half_sum[group]);
  return _mm512_setzero_si512();
}

__m512i BroadcastCodes(const QuantizedCell& cell, int line) {
  int32_t four;
  __builtin_memcpy(&four, cell.q + 4 * line, 4);
  return _mm512_set1_epi32(four);
}

// One tile's share of kRows x kCols outputs.
template <WeightFormat kFormat, int kRows, int kCols, typename Panel>
__attribute__((always_inline)) inline void AddTile(const Panel (&panels)[kCols], int64_t tile,
                                                   const QuantizedCell* cells, __m512 (&acc)[kCols][kRows]) {
  constexpr FormatFacts kFacts = FactsOf(kFormat);
  constexpr int kPairs = kTileDepth / 8 / kFacts.scale_groups;
  QANAT_UNROLL
  for (int group = 0; group < kFacts.scale_groups; ++group) {
    __m512i dot[kCols][kRows];
    QANAT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      QANAT_UNROLL
      for (int c = 0; c < kCols; ++c) dot[c][r] = Correction<kFormat>(cells[r], group);
    }
    QANAT_UNROLL
    for (int pair = group * kPairs; pair < (group + 1) * kPairs; ++pair) {
      __m512i low[kCols], high[kCols];
      QANAT_UNROLL
      for (int c = 0; c < kCols; ++c) panels[c].Pair(tile, pair, low[c], high[c]);
      QANAT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m512i a = BroadcastCodes(cells[r], 2 * pair);
        QANAT_UNROLL
        for (int c = 0; c < kCols; ++c) dot[c][r] = _mm512_dpbusd_epi32(dot[c][r], low[c], a);
      }
      QANAT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m512i a = BroadcastCodes(cells[r], 2 * pair + 1);
        QANAT_UNROLL
        for (int c = 0; c < kCols; ++c) dot[c][r] = _mm512_dpbusd_epi32(dot[c][r], high[c], a);
      }
    }
    QANAT_UNROLL
    for (int c = 0; c < kCols; ++c) {
      const __m512 d = panels[c].Scale(tile, group);
      QANAT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m512 s = _mm512_mul_ps(d, _mm512_set1_ps(cells[r].scale));
        acc[c][r] = _mm512_fmadd_ps(s, _mm512_cvtepi32_ps(dot[c][r]), acc[c][r]);
      }
    }
  }
  if constexpr (kFacts.has_minimum) {
    QANAT_UNROLL
    for (int c = 0; c < kCols; ++c) {
      const __m512 m = panels[c].Minimum(tile);
      QANAT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m512 s = _mm512_mul_ps(m, _mm512_set1_ps(cells[r].scale));
        acc[c][r] = _mm512_fmadd_ps(s, _mm512_set1_ps(cells[r].sum), acc[c][r]);
      }
    }
  }
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
  __m512* sums;  // [kCols][kRows]
  Ahead ahead;
};

template <WeightFormat kFormat, int kRows, int kCols, typename Panel>
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
    AddTile<kFormat, kRows, kCols>(panels, tile, cells + tile * kRowBlock, acc);
  }
  QANAT_UNROLL
  for (int c = 0; c < kCols; ++c) {
    QANAT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if (stretch.end == num_tiles) {
        Store(params, panel + c, row + r, acc[c][r]);
      } else {
        stretch.sums[c * kRows + r] = acc[c][r];
      }
    }
  }
}

template <WeightFormat kFormat, int kCols, typename Panel>
void RowBlock(const GemmParams& params, const Panel (&panels)[kCols], int panel, int row, int rows,
              const Stretch& stretch) {
  switch (rows) {
    case 1:
      return Tile<kFormat, 1, kCols>(params, panels, panel, row, stretch);
    case 2:
      return Tile<kFormat, 2, kCols>(params, panels, panel, row, stretch);
    case 3:
      return Tile<kFormat, 3, kCols>(params, panels, panel, row, stretch);
    case 4:
      return Tile<kFormat, 4, kCols>(params, panels, panel, row, stretch);
    case 5:
      return Tile<kFormat, 5, kCols>(params, panels, panel, row, stretch);
    default:
      return Tile<kFormat, kRowBlock, kCols>(params, panels, panel, row, stretch);
  }
}

// All rows of the range over tiles [begin, end) of kCols panels; `sums` holds 12 vectors a row block.
template <WeightFormat kFormat, int kCols, typename Panel>
void AllRows(const GemmParams& params, const Panel (&panels)[kCols], int panel, const GemmRange& range,
             int begin, int end, __m512* sums) {
  const PackedMatrix& weight = *params.weight;
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
    RowBlock<kFormat, kCols>(params, panels, panel, row, rows,
                             {begin, end, sums + block * kColumnTiles * kRowBlock, {next + fetched, lines}});
  }
}

// Tiles [begin, end) to out[0] and on.
template <WeightFormat kFormat>
void Unpack(const PackedPanel<kFormat>& panel, int begin, int end, UnpackedTile* out) {
  for (int64_t tile = begin; tile < end; ++tile, ++out) {
    for (int pair = 0; pair < kTileDepth / 8; ++pair) {
      panel.Pair(tile, pair, out->lines[2 * pair], out->lines[2 * pair + 1]);
    }
    out->scales[0] = panel.Scale(tile, 0);
    if constexpr (FactsOf(kFormat).has_minimum) out->scales[1] = panel.Minimum(tile);
  }
}

template <WeightFormat kFormat, int kCols>
void UnpackedColumns(const GemmParams& params, const PackedPanel<kFormat> (&packed)[kCols], int panel,
                     const GemmRange& range, UnpackedTile* scratch) {
  const int num_tiles = params.weight->num_tiles;
  const int stretches = (num_tiles + kStretchTiles - 1) / kStretchTiles;
  const int step = (num_tiles + stretches - 1) / stretches;
  __m512* sums = reinterpret_cast<__m512*>(scratch + kColumnTiles * kStretchTiles);
  for (int begin = 0; begin < num_tiles; begin += step) {
    const int end = begin + step < num_tiles ? begin + step : num_tiles;
    ScratchPanel panels[kCols];
    for (int c = 0; c < kCols; ++c) {
      Unpack<kFormat>(packed[c], begin, end, scratch + c * step);
      panels[c].tiles = scratch + c * step - begin;
    }
    AllRows<kFormat, kCols>(params, panels, panel, range, begin, end, sums);
  }
}

template <WeightFormat kFormat, int kCols>
void Columns(const GemmParams& params, int panel, const GemmRange& range, UnpackedTile* scratch) {
  PackedPanel<kFormat> panels[kCols];
  for (int c = 0; c < kCols; ++c) {
    panels[c] = {PanelValues(*params.weight, panel + c), PanelScales(*params.weight, panel + c)};
  }
  if constexpr (FactsOf(kFormat).tile_value_bytes == 256) {
    if (range.row_end - range.row_begin >= kUnpackFromRows) {
      return UnpackedColumns<kFormat, kCols>(params, panels, panel, range, scratch);
    }
  }
  AllRows<kFormat, kCols>(params, panels, panel, range, 0, params.weight->num_tiles, nullptr);
}

template <WeightFormat kFormat>
void Gemm(const GemmParams& params, const GemmRange& range, std::byte* scratch) {
  UnpackedTile* tiles = reinterpret_cast<UnpackedTile*>(scratch);
  int panel = range.panel_begin;
  for (; panel + kColumnTiles <= range.panel_end; panel += kColumnTiles) {
    Columns<kFormat, kColumnTiles>(params, panel, range, tiles);
  }
  for (; panel < range.panel_end; ++panel) Columns<kFormat, 1>(params, panel, range, tiles);
}

}  // namespace

void Avx512QuantizedGemm(const GemmParams& params, const GemmRange& range, std::byte* scratch) {
  switch (params.weight->format) {
    case WeightFormat::kQ4_0:
      return Gemm<WeightFormat::kQ4_0>(params, range, scratch);
    case WeightFormat::kQ4_1:
      return Gemm<WeightFormat::kQ4_1>(params, range, scratch);
    case WeightFormat::kQ8_0:
      return Gemm<WeightFormat::kQ8_0>(params, range, scratch);
    case WeightFormat::kQ6_K:
      return Gemm<WeightFormat::kQ6_K>(params, range, scratch);
    default:
      return;
  }
}

}  // namespace qanat::kernels
