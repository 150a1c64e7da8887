#include "kernels/cpu/paths.h"
#include "kernels/exp2.h"

namespace qanat::kernels::QANAT_KERNEL_ISA {
namespace {

constexpr int kLanes = 16;
constexpr uint32_t kInfinityBits = 0x7F800000u;
constexpr uint32_t kQuietNan = 0x7FC00000u;
constexpr uint32_t kSmallestAmaxBits = (127u - 100u) << 23;  // 2^-100

// Absolute values order like their bits, infinities and NaN above all numbers.
uint32_t LargestMagnitudeBits(const float* x) {
  uint32_t largest[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t a = FloatBits(x[i]) & 0x7FFFFFFFu;
    const uint32_t b = FloatBits(x[i + kLanes]) & 0x7FFFFFFFu;
    largest[i] = a < b ? b : a;
  }
  uint32_t result = 0;
  for (int i = 0; i < kLanes; ++i) result = result < largest[i] ? largest[i] : result;
  return result;
}

void QuantizeGroup(const float* x, QuantizedCell& cell) {
  const uint32_t amax_bits = LargestMagnitudeBits(x);
  const bool finite = amax_bits < kInfinityBits;
  const bool codes = finite && amax_bits >= kSmallestAmaxBits;
  const float amax = BitsToFloat(amax_bits);
  const float factor = codes ? 127.0f / amax : 0.0f;
  int32_t half_sum[2] = {0, 0};
  for (int i = 0; i < kTileDepth; ++i) {
    // Adding 1.5 * 2^23 rounds to the nearest even integer, which the low bits then hold.
    const float product = codes ? x[i] * factor : 0.0f;
    const uint32_t rounded = FloatBits(product + kExp2Round) - FloatBits(kExp2Round);
    cell.q[i] = static_cast<int8_t>(static_cast<int32_t>(rounded));
  }
  for (int i = 0; i < kTileDepth; ++i) half_sum[i / 16] += cell.q[i];
  const int32_t sum = half_sum[0] + half_sum[1];
  cell.scale = codes ? amax / 127.0f : finite ? 0.0f : BitsToFloat(kQuietNan);
  cell.sum = static_cast<float>(sum);
  cell.minus_8_sum = -8 * sum;
  cell.minus_16_sum = -16 * sum;
  cell.minus_128_sum = -128 * sum;
  cell.minus_32_half_sum[0] = -32 * half_sum[0];
  cell.minus_32_half_sum[1] = -32 * half_sum[1];
}

float SumOfSquares(const float* x, int count) {
  float lane[kLanes] = {};
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lane[l] += x[i + l] * x[i + l];
  }
  for (int l = 0; i + l < count; ++l) lane[l] += x[i + l] * x[i + l];
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  }
  return lane[0];
}

// Where the row's token lies in the cache.
struct Slot {
  int32_t block;
  int token;
};

Slot SlotOf(const RopeStoreParams& params, int row) {
  const int position = params.first_position + row;
  return {params.block_table[position / kBlockTokens], position % kBlockTokens};
}

void Rotate(const RopeStoreParams& params, const float* cos, const float* sin, float* head) {
  const int half = params.kv.head_dim / 2;
  const int step = params.interleaved ? 2 : 1;
  const int partner = params.interleaved ? 1 : half;
  for (int i = 0; i < half; ++i) {
    const float a = head[i * step];
    const float b = head[i * step + partner];
    head[i * step] = a * cos[i] - b * sin[i];
    head[i * step + partner] = a * sin[i] + b * cos[i];
  }
}

void StoreBf16(const RopeStoreParams& params, Slot slot, int head, const float* key, const float* value) {
  const int head_dim = params.kv.head_dim;
  std::byte* k_base = KvHead(params.kv, KvElement::kBF16, slot.block, head);
  uint16_t* k = reinterpret_cast<uint16_t*>(k_base) + slot.token * 2;
  uint16_t* v = reinterpret_cast<uint16_t*>(k_base + KvHalfBytes(KvElement::kBF16, head_dim)) +
                static_cast<int64_t>(slot.token / 2) * head_dim * 2 + slot.token % 2;
  for (int i = 0; i < head_dim; ++i) k[i / 2 * kBlockTokens * 2 + i % 2] = FloatToBf16(key[i]);
  for (int i = 0; i < head_dim; ++i) v[i * 2] = FloatToBf16(value[i]);
}

void StoreF32(const RopeStoreParams& params, Slot slot, int head, const float* key, const float* value) {
  const int head_dim = params.kv.head_dim;
  std::byte* k_base = KvHead(params.kv, KvElement::kF32, slot.block, head);
  float* k = reinterpret_cast<float*>(k_base) + static_cast<int64_t>(slot.token) * head_dim;
  float* v = k + KvHalfBytes(KvElement::kF32, head_dim) / 4;
  for (int i = 0; i < head_dim; ++i) k[i] = key[i];
  for (int i = 0; i < head_dim; ++i) v[i] = value[i];
}

using StoreFn = void (*)(const RopeStoreParams&, Slot, int, const float*, const float*);

void RopeStore(const RopeStoreParams& params, int row_begin, int row_end, StoreFn store) {
  const int head_dim = params.kv.head_dim;
  const int num_kv_heads = params.kv.num_kv_heads;
  for (int row = row_begin; row < row_end; ++row) {
    const int64_t angle = static_cast<int64_t>(params.first_position + row) * (head_dim / 2);
    float* heads = params.qkv + row * params.stride;
    // Keys are rotated where they lie, too: nothing reads them there again.
    for (int head = 0; head < params.num_heads + num_kv_heads; ++head) {
      Rotate(params, params.cos + angle, params.sin + angle, heads + head * head_dim);
    }
    const float* keys = heads + params.num_heads * head_dim;
    const float* values = keys + num_kv_heads * head_dim;
    for (int head = 0; head < num_kv_heads; ++head) {
      store(params, SlotOf(params, row), head, keys + head * head_dim, values + head * head_dim);
    }
  }
}

}  // namespace

void Quantize(const QuantizeParams& params, int row_begin, int row_end) {
  const int64_t num_tiles = params.out.num_tiles;
  for (int row = row_begin; row < row_end; ++row) {
    const float* in = params.in + row * params.stride;
    QuantizedCell* cells = params.out.cells + row / kRowBlock * num_tiles * kRowBlock + row % kRowBlock;
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      QuantizeGroup(in + tile * kTileDepth, cells[tile * kRowBlock]);
    }
  }
}

void RmsNorm(const RmsNormParams& params, int row_begin, int row_end) {
  for (int row = row_begin; row < row_end; ++row) {
    const float* in = params.in + row * params.in_stride;
    float* out = params.out + row * params.out_stride;
    const float mean = SumOfSquares(in, params.cols) / static_cast<float>(params.cols);
    const float factor = 1.0f / __builtin_sqrtf(mean + params.eps);
    if (params.accumulate) {
      for (int i = 0; i < params.cols; ++i) out[i] = out[i] + in[i] * factor * params.weight[i];
    } else {
      for (int i = 0; i < params.cols; ++i) out[i] = in[i] * factor * params.weight[i];
    }
  }
}

void SiluMul(const SiluMulParams& params, int row_begin, int row_end) {
  for (int row = row_begin; row < row_end; ++row) {
    const float* gate = params.gate_up + static_cast<int64_t>(row) * 2 * params.ffn;
    const float* up = gate + params.ffn;
    float* out = params.out + static_cast<int64_t>(row) * params.ffn;
    for (int i = 0; i < params.ffn; ++i) {
      out[i] = gate[i] / (1.0f + Exp2(gate[i] * -kLog2E)) * up[i];
    }
  }
}

void GeluMul(const GeluMulParams& params, int row_begin, int row_end) {
  for (int row = row_begin; row < row_end; ++row) {
    const float* gate = params.gate_up + static_cast<int64_t>(row) * 2 * params.ffn;
    const float* up = gate + params.ffn;
    float* out = params.out + static_cast<int64_t>(row) * params.ffn;
    for (int i = 0; i < params.ffn; ++i) {
      const float x = gate[i] * (kGeluCubic * (gate[i] * gate[i]) + kGeluLinear);
      out[i] = gate[i] / (1.0f + Exp2(x)) * up[i];
    }
  }
}

void RopeStoreBf16(const RopeStoreParams& params, int row_begin, int row_end) {
  RopeStore(params, row_begin, row_end, StoreBf16);
}

void RopeStoreF32(const RopeStoreParams& params, int row_begin, int row_end) {
  RopeStore(params, row_begin, row_end, StoreF32);
}

}  // namespace qanat::kernels::QANAT_KERNEL_ISA
