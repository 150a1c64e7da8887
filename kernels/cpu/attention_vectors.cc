// Attention over the bf16 cache, 16 keys or 16 dimensions a vector.
//
// Up to 6 queries (heads of a group, and neighbouring rows where they see the whole tile) pass over a tile
// together and share every load and expansion of keys and values.
#include "kernels/cpu/paths.h"
#include "kernels/cpu/softmax_vectors.h"
#include "kernels/cpu/unroll.h"

namespace qanat::kernels::QANAT_KERNEL_ISA {
namespace {

constexpr int kMaxQueries = 6;

// Queries that share a KV head, and how far each has come.
struct QuerySet {
  alignas(64) float q[kMaxQueries][kMaxHeadDim];  // scaled
  alignas(64) float p[kMaxQueries][kTileKeys];    // scores, then probabilities, of the present tile
  AttentionPartial state[kMaxQueries];
  AttentionPartial total[kMaxQueries];
};

// Keys [first, first + 64) of a sequence; those that no query sees are not read.
struct KeyTile {
  const std::byte* blocks[kTileBlocks];  // K of the head; V follows
  const std::byte* ahead[kTileBlocks];   // the blocks of the next tile, to be fetched meanwhile
};

void Fetch(const std::byte* line) { _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T0); }

// Scores of kQueries queries against kBlocks blocks of keys.
template <int kQueries, int kBlocks>
void ScoreBlocks(const std::byte* const* blocks, const std::byte* const* ahead, int head_dim,
                 const float (*q)[kMaxHeadDim], float (*p)[kTileKeys]) {
  Floats acc[kQueries][kBlocks];
  QANAT_UNROLL
  for (int n = 0; n < kQueries; ++n) {
    QANAT_UNROLL
    for (int b = 0; b < kBlocks; ++b) acc[n][b] = Zero();
  }
  for (int i = 0; i < head_dim / 2; ++i) {
    Floats even[kBlocks], odd[kBlocks];
    QANAT_UNROLL
    for (int b = 0; b < kBlocks; ++b) {
      LoadPairs(blocks[b] + i * 64, even[b], odd[b]);
      Fetch(ahead[b] + i * 64);
    }
    QANAT_UNROLL
    for (int n = 0; n < kQueries; ++n) {
      const Floats q_even = Broadcast(q[n][2 * i]);
      const Floats q_odd = Broadcast(q[n][2 * i + 1]);
      QANAT_UNROLL
      for (int b = 0; b < kBlocks; ++b) {
        acc[n][b] = Fma(q_even, even[b], acc[n][b]);
        acc[n][b] = Fma(q_odd, odd[b], acc[n][b]);
      }
    }
  }
  QANAT_UNROLL
  for (int n = 0; n < kQueries; ++n) {
    QANAT_UNROLL
    for (int b = 0; b < kBlocks; ++b) Store(p[n] + b * kBlockTokens, acc[n][b]);
  }
}

// Of the blocks [b, num_blocks).
template <int kQueries>
void Scores(const KeyTile& tile, int b, int num_blocks, int head_dim, const float (*q)[kMaxHeadDim],
            float (*p)[kTileKeys]) {
  if constexpr (kQueries * 2 <= kAccumulators) {
    for (; b + 2 <= num_blocks; b += 2) {
      const auto at = reinterpret_cast<float(*)[kTileKeys]>(&p[0][b * kBlockTokens]);
      ScoreBlocks<kQueries, 2>(tile.blocks + b, tile.ahead + b, head_dim, q, at);
    }
  }
  for (; b < num_blocks; ++b) {
    const auto at = reinterpret_cast<float(*)[kTileKeys]>(&p[0][b * kBlockTokens]);
    ScoreBlocks<kQueries, 1>(tile.blocks + b, tile.ahead + b, head_dim, q, at);
  }
}

// The softmax step of `queries` queries; correction[n] is what the output of n so far must be multiplied by.
template <bool kWhole>
void Softmax(int queries, const SeenKeys* seen, float (*p)[kTileKeys], AttentionPartial* state,
             float* correction) {
  alignas(64) float change[16] = {};
  for (int n = 0; n < queries; ++n) {
    const float tile_max = TileMax<kWhole>(seen[n], p[n]);
    const float max = state[n].max < tile_max ? tile_max : state[n].max;
    change[n] = state[n].max - max;
    state[n].max = max;
  }
  Store(correction, Exp2Vector(Load(change)));
  for (int n = 0; n < queries; ++n) {
    state[n].sum =
        __builtin_fmaf(state[n].sum, correction[n], Exponentiate<kWhole>(seen[n], state[n].max, p[n]));
  }
}

// out = out * correction, then += p_j * v_j for j in [begin, end) in ascending order; dimensions
// [16 line, 16 (line + kLines)). REQUIRES: begin is even or end == begin + 1.
template <int kQueries, int kLines>
void AddLines(const KeyTile& tile, int begin, int end, int head_dim, int line, const float (*p)[kTileKeys],
              const float* correction, AttentionPartial* state) {
  Floats acc[kQueries][kLines];
  QANAT_UNROLL
  for (int n = 0; n < kQueries; ++n) {
    QANAT_UNROLL
    for (int l = 0; l < kLines; ++l) {
      acc[n][l] = Mul(Load(state[n].out + (line + l) * 16), Broadcast(correction[n]));
    }
  }
  const int64_t values = static_cast<int64_t>(head_dim) * kBlockTokens * 2 + line * 64;
  int j = begin;
  for (; j + 2 <= end; j += 2) {
    const int64_t at = values + j % kBlockTokens / 2 * head_dim * 4;
    const std::byte* pair = tile.blocks[j / kBlockTokens] + at;
    QANAT_UNROLL
    for (int l = 0; l < kLines; ++l) {
      Floats even, odd;
      LoadPairs(pair + l * 64, even, odd);
      Fetch(tile.ahead[j / kBlockTokens] + at + l * 64);
      QANAT_UNROLL
      for (int n = 0; n < kQueries; ++n) acc[n][l] = Fma(Broadcast(p[n][j]), even, acc[n][l]);
      QANAT_UNROLL
      for (int n = 0; n < kQueries; ++n) acc[n][l] = Fma(Broadcast(p[n][j + 1]), odd, acc[n][l]);
    }
  }
  if (j < end) {
    const std::byte* pair = tile.blocks[j / kBlockTokens] + values + j % kBlockTokens / 2 * head_dim * 4;
    QANAT_UNROLL
    for (int l = 0; l < kLines; ++l) {
      Floats even, odd;
      LoadPairs(pair + l * 64, even, odd);
      const Floats value = j % 2 == 0 ? even : odd;
      QANAT_UNROLL
      for (int n = 0; n < kQueries; ++n) acc[n][l] = Fma(Broadcast(p[n][j]), value, acc[n][l]);
    }
  }
  QANAT_UNROLL
  for (int n = 0; n < kQueries; ++n) {
    QANAT_UNROLL
    for (int l = 0; l < kLines; ++l) Store(state[n].out + (line + l) * 16, acc[n][l]);
  }
}

template <int kQueries>
void AddValues(const KeyTile& tile, int begin, int end, int head_dim, const float (*p)[kTileKeys],
               const float* correction, AttentionPartial* state) {
  const int lines = head_dim / 16;
  int line = 0;
  if constexpr (kQueries * 4 <= kAccumulators) {
    for (; line + 4 <= lines; line += 4) {
      AddLines<kQueries, 4>(tile, begin, end, head_dim, line, p, correction, state);
    }
  }
  if constexpr (kQueries * 2 <= kAccumulators) {
    for (; line + 2 <= lines; line += 2) {
      AddLines<kQueries, 2>(tile, begin, end, head_dim, line, p, correction, state);
    }
  }
  for (; line < lines; ++line) AddLines<kQueries, 1>(tile, begin, end, head_dim, line, p, correction, state);
}

// Keys [begin, end) of one query; what it has so far is multiplied by `correction`, which becomes 1.
void AddAlone(const KeyTile& tile, int begin, int end, int head_dim, const float (*p)[kTileKeys],
              float& correction, AttentionPartial* state) {
  if (begin % 2 != 0 && begin < end) {
    AddValues<1>(tile, begin, begin + 1, head_dim, p, &correction, state);
    correction = 1;
    ++begin;
  }
  if (begin >= end) return;
  AddValues<1>(tile, begin, end, head_dim, p, &correction, state);
  correction = 1;
}

// Queries [first, first + kQueries) of the set over one tile. seen[n] are the keys that n sees, at least one;
// begins and ends ascend with n.
template <int kQueries>
void TileQueries(const KeyTile& tile, int head_dim, int first, const SeenKeys* seen, QuerySet& set) {
  alignas(64) float correction[16];
  const SeenKeys earliest = seen[0];
  const SeenKeys latest = seen[kQueries - 1];
  const int num_blocks = (latest.end + kBlockTokens - 1) / kBlockTokens;
  float(*p)[kTileKeys] = set.p + first;
  AttentionPartial* state = set.state + first;
  Scores<kQueries>(tile, earliest.begin / kBlockTokens, num_blocks, head_dim, set.q + first, p);
  const bool whole = latest.begin == 0 && earliest.end == kTileKeys;
  (whole ? Softmax<true> : Softmax<false>)(kQueries, seen, p, state, correction);
  // Together where all see both keys of a pair, or end together; each on its own before and after.
  const int common = (latest.begin + 1) & ~1;
  int common_end = earliest.end == latest.end ? latest.end : earliest.end & ~1;
  if (common_end < common) common_end = common;
  for (int n = 0; n < kQueries && common > 0; ++n) {
    const int end = seen[n].end < common ? seen[n].end : common;
    AddAlone(tile, seen[n].begin, end, head_dim, p + n, correction[n], state + n);
  }
  AddValues<kQueries>(tile, common, common_end, head_dim, p, correction, state);
  for (int n = 0; n < kQueries && common_end < latest.end; ++n) {
    float one = 1;
    AddAlone(tile, common_end, seen[n].end, head_dim, p + n, one, state + n);
  }
}

void Tile(const KeyTile& tile, int head_dim, int first, int queries, const SeenKeys* seen, QuerySet& set) {
  switch (queries) {
    case 1:
      return TileQueries<1>(tile, head_dim, first, seen, set);
    case 2:
      return TileQueries<2>(tile, head_dim, first, seen, set);
    case 3:
      return TileQueries<3>(tile, head_dim, first, seen, set);
    case 4:
      return TileQueries<4>(tile, head_dim, first, seen, set);
    case 5:
      return TileQueries<5>(tile, head_dim, first, seen, set);
    default:
      return TileQueries<kMaxQueries>(tile, head_dim, first, seen, set);
  }
}

// Heads [head, head + heads) of rows [row, row + rows): the queries of a set, row by row.
struct Span {
  int kv_head;
  int head;
  int heads;
  int row;
  int rows;
};

// The tile at `first_key`, in a context of `visible` keys.
KeyTile TileAt(const AttentionParams& params, int kv_head, int first_key, int visible) {
  KeyTile tile;
  const int last_block = (visible - 1) / kBlockTokens;
  for (int b = 0; b < kTileBlocks; ++b) {
    const int block = first_key / kBlockTokens + b;
    const int next = block + kTileBlocks;
    tile.blocks[b] = KvHead(params.kv, KvElement::kBF16,
                            params.block_table[block < last_block ? block : last_block], kv_head);
    tile.ahead[b] = KvHead(params.kv, KvElement::kBF16,
                           params.block_table[next < last_block ? next : last_block], kv_head);
  }
  return tile;
}

void LoadQueries(const AttentionParams& params, const Span& span, QuerySet& set) {
  const Floats factor = Broadcast(params.scale * kLog2E);
  for (int r = 0; r < span.rows; ++r) {
    for (int h = 0; h < span.heads; ++h) {
      const float* q = params.q + (span.row + r) * params.q_stride +
                       static_cast<int64_t>(span.head + h) * params.kv.head_dim;
      for (int i = 0; i < params.kv.head_dim; i += 16) {
        Store(&set.q[r * span.heads + h][i], Mul(LoadUnaligned(q + i), factor));
      }
    }
  }
}

// Leaves the partition's results of all queries of the span in set.state.
void Partition(const AttentionParams& params, const Span& span, int partition, QuerySet& set) {
  for (int n = 0; n < span.rows * span.heads; ++n) {
    set.state[n].max = BitsToFloat(0xFF800000u);
    set.state[n].sum = 0;
    for (int i = 0; i < params.kv.head_dim; i += 16) Store(set.state[n].out + i, Zero());
  }
  const int first_position = params.first_position + span.row;
  const int visible = first_position + span.rows;  // to the last row
  for (int key = partition * kPartitionKeys; key < (partition + 1) * kPartitionKeys && key < visible;
       key += kTileKeys) {
    // Queries [first, past) see a key of the tile.
    SeenKeys seen[kMaxQueries];
    int first = 0;
    int past = 0;
    for (int n = 0; n < span.rows * span.heads; ++n) {
      seen[n] = SeenOf(params, first_position + n / span.heads, key);
      if (seen[n].end <= 0) first = n + 1;
      if (seen[n].begin < kTileKeys) past = n + 1;
    }
    if (first >= past) continue;
    const KeyTile tile = TileAt(params, span.kv_head, key, visible);
    Tile(tile, params.kv.head_dim, first, past - first, seen + first, set);
  }
}

void CopyPartial(const AttentionPartial& from, int head_dim, AttentionPartial& to) {
  to.max = from.max;
  to.sum = from.sum;
  for (int i = 0; i < head_dim; i += 16) Store(to.out + i, Load(from.out + i));
}

void MergeInto(const AttentionPartial& next, int head_dim, AttentionPartial& total) {
  const float max = total.max < next.max ? next.max : total.max;
  const float a = Exp2(total.max - max);
  const float b = Exp2(next.max - max);
  total.max = max;
  total.sum = __builtin_fmaf(total.sum, a, next.sum * b);
  for (int i = 0; i < head_dim; i += 16) {
    const Floats scaled = Mul(Load(next.out + i), Broadcast(b));
    Store(total.out + i, Fma(Load(total.out + i), Broadcast(a), scaled));
  }
}

void WriteOut(const AttentionParams& params, int head, int row, const AttentionPartial& total) {
  const int head_dim = params.kv.head_dim;
  float* out = params.out + row * params.out_stride + static_cast<int64_t>(head) * head_dim;
  const Floats factor = Broadcast(1.0f / total.sum);
  for (int i = 0; i < head_dim; i += 16) StoreUnaligned(out + i, Mul(Load(total.out + i), factor));
}

void AttendSpan(const AttentionParams& params, const Span& span, QuerySet& set) {
  const int head_dim = params.kv.head_dim;
  LoadQueries(params, span, set);
  const int first_position = params.first_position + span.row;
  const int partitions = NumPartitions(first_position + span.rows - 1);
  for (int p = FirstPartition(params, first_position); p < partitions; ++p) {
    Partition(params, span, p, set);
    for (int n = 0; n < span.rows * span.heads; ++n) {
      // The first rows of a span may end a partition earlier, the last ones begin one later.
      const int position = first_position + n / span.heads;
      const int first = FirstPartition(params, position);
      if (p < first || p >= NumPartitions(position)) continue;
      if (p == first) {
        CopyPartial(set.state[n], head_dim, set.total[n]);
      } else {
        MergeInto(set.state[n], head_dim, set.total[n]);
      }
    }
  }
  for (int n = 0; n < span.rows * span.heads; ++n) {
    WriteOut(params, span.head + n % span.heads, span.row + n / span.heads, set.total[n]);
  }
}

}  // namespace

void Attend(const AttentionParams& params, int kv_head, int row_begin, int row_end) {
  const int group = params.num_heads / params.kv.num_kv_heads;
  QuerySet set;
  for (int i = 0; i < group; i += kMaxQueries) {
    const int heads = group - i < kMaxQueries ? group - i : kMaxQueries;
    const int step = kMaxQueries / heads;
    for (int row = row_begin; row < row_end; row += step) {
      const int rows = row_end - row < step ? row_end - row : step;
      AttendSpan(params, {kv_head, kv_head * group + i, heads, row, rows}, set);
    }
  }
}

void AttendPartition(const AttentionParams& params, int kv_head, int row, int partition,
                     AttentionPartial* partials) {
  const int group = params.num_heads / params.kv.num_kv_heads;
  QuerySet set;
  for (int i = 0; i < group; i += kMaxQueries) {
    const Span span = {kv_head, kv_head * group + i, group - i < kMaxQueries ? group - i : kMaxQueries, row,
                       1};
    LoadQueries(params, span, set);
    Partition(params, span, partition, set);
    for (int h = 0; h < span.heads; ++h) CopyPartial(set.state[h], params.kv.head_dim, partials[i + h]);
  }
}

void Merge(const AttentionParams& params, int kv_head, int row, const AttentionPartial* partials) {
  const int group = params.num_heads / params.kv.num_kv_heads;
  for (int i = 0; i < group; ++i) {
    AttentionPartial total;
    const int first = FirstPartition(params, params.first_position + row);
    CopyPartial(partials[first * group + i], params.kv.head_dim, total);
    for (int p = first + 1; p < NumPartitions(params.first_position + row); ++p) {
      MergeInto(partials[p * group + i], params.kv.head_dim, total);
    }
    WriteOut(params, kv_head * group + i, row, total);
  }
}

}  // namespace qanat::kernels::QANAT_KERNEL_ISA
