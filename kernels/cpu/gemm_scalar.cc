// The arithmetic of gemm.h written out for one output at a time: what the vector paths must equal bit for
// bit.
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/paths.h"

namespace qanat::kernels {
namespace {

struct UnpackedTile {
  TileLines lines;
  TileScales scales;
};

int32_t DotFour(uint32_t codes, const int8_t* q) {
  int32_t dot = 0;
  for (int i = 0; i < 4; ++i) dot += static_cast<int32_t>(codes >> (8 * i) & 0xFFu) * q[i];
  return dot;
}

// The sum of a group's q; what a dot product with unsigned codes exceeds the signed one by is a multiple of
// it.
int32_t SumOfGroup(const FormatFacts& facts, const QuantizedCell& cell, int group) {
  const int depth = kTileDepth / facts.scale_groups;
  int32_t sum = 0;
  for (int i = group * depth; i < (group + 1) * depth; ++i) sum += cell.q[i];
  return sum;
}

void AddTile(const FormatFacts& facts, const UnpackedTile& tile, const QuantizedCell& cell, float* acc) {
  const int lines_a_group = kTileDepth / 4 / facts.scale_groups;
  for (int group = 0; group < facts.scale_groups; ++group) {
    const int32_t sum = SumOfGroup(facts, cell, group);
    for (int lane = 0; lane < kPanelColumns; ++lane) {
      int32_t dot = -facts.zero_point * sum;
      for (int i = group * lines_a_group; i < (group + 1) * lines_a_group; ++i) {
        dot += DotFour(tile.lines.line[i][lane], cell.q + i * 4);
      }
      acc[lane] = __builtin_fmaf(tile.scales.d[group][lane] * cell.scale, static_cast<float>(dot), acc[lane]);
      if (facts.has_minimum) {
        acc[lane] =
            __builtin_fmaf(tile.scales.m[group][lane] * cell.scale, static_cast<float>(sum), acc[lane]);
      }
    }
  }
}

void Store(const GemmParams& params, int panel, int row, const float* acc) {
  float* out = params.out + row * params.out_stride + panel * kPanelColumns;
  for (int lane = 0; lane < kPanelColumns && panel * kPanelColumns + lane < params.weight->rows; ++lane) {
    out[lane] = params.accumulate ? out[lane] + acc[lane] : acc[lane];
  }
}

void QuantizedPanel(const GemmParams& params, const FormatFacts& facts, int panel, const GemmRange& range,
                    UnpackedTile* tiles) {
  const int64_t num_tiles = params.weight->num_tiles;
  const std::byte* values = PanelValues(*params.weight, panel);
  const std::byte* scales = PanelScales(*params.weight, panel);
  for (int64_t t = 0; t < num_tiles; ++t) {
    UnpackLines(facts, values + t * facts.tile_value_bytes, tiles[t].lines);
    UnpackScales(facts, scales, t, tiles[t].scales);
  }
  for (int row = range.row_begin; row < range.row_end; ++row) {
    const QuantizedCell* cells =
        params.quantized.cells + row / kRowBlock * num_tiles * kRowBlock + row % kRowBlock;
    float acc[kPanelColumns] = {};
    for (int64_t t = 0; t < num_tiles; ++t) AddTile(facts, tiles[t], cells[t * kRowBlock], acc);
    Store(params, panel, row, acc);
  }
}

void FloatPanel(const GemmParams& params, int panel, const GemmRange& range) {
  const std::byte* values = PanelValues(*params.weight, panel);
  for (int row = range.row_begin; row < range.row_end; ++row) {
    const float* in = params.in + row * params.in_stride;
    float acc[kPanelColumns] = {};
    for (int64_t k = 0; k < params.weight->cols; ++k) {
      for (int lane = 0; lane < kPanelColumns; ++lane) {
        const float weight = LoadWeight(params.weight->format, values, k * kPanelColumns + lane);
        acc[lane] = __builtin_fmaf(weight, in[k], acc[lane]);
      }
    }
    Store(params, panel, row, acc);
  }
}

}  // namespace

void ScalarGemm(const GemmParams& params, const GemmRange& range, std::byte* scratch) {
  const FormatFacts facts = FactsOf(params.weight->format);
  for (int panel = range.panel_begin; panel < range.panel_end; ++panel) {
    if (facts.quantized) {
      QuantizedPanel(params, facts, panel, range, reinterpret_cast<UnpackedTile*>(scratch));
    } else {
      FloatPanel(params, panel, range);
    }
  }
}

}  // namespace qanat::kernels
