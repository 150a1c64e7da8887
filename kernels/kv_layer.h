// One layer of the KV cache: blocks of 16 tokens, each holding all KV heads, each holding K and then V.
//
//   bf16   K is [head_dim / 2][16 tokens][2], so that a line of 64 bytes is two dimensions of 16 keys;
//          V is [8][head_dim][2 tokens], so that a line is 16 dimensions of two tokens
//   f32    (reference path) K and V are [16 tokens][head_dim]
#pragma once

#include <cstddef>
#include <cstdint>

namespace qanat::kernels {

constexpr int kBlockTokens = 16;
constexpr int kMaxHeadDim = 256;  // a multiple of 16 up to this

enum class KvElement : uint8_t { kBF16 = 2, kF32 = 4 };  // the value is its size in bytes

// A view of the arena.
struct KvLayer {
  std::byte* base = nullptr;
  int num_kv_heads = 0;
  int head_dim = 0;
};

// Bytes of K, and of V, of one head in one block.
static constexpr int64_t KvHalfBytes(KvElement element, int head_dim) {
  return static_cast<int64_t>(kBlockTokens) * head_dim * static_cast<int>(element);
}

// K of a head in a physical block; V follows it.
static inline std::byte* KvHead(const KvLayer& layer, KvElement element, int32_t block, int head) {
  const int64_t index = static_cast<int64_t>(block) * layer.num_kv_heads + head;
  return layer.base + index * 2 * KvHalfBytes(element, layer.head_dim);
}

}  // namespace qanat::kernels
