#include "worker/backend/kv_arena.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace qanat::backend {

absl::Status KvArena::Allocate(const KvConfig& config) {
  QANAT_CHECK(base_ == nullptr) << "the KV cache is allocated once";
  if (config.block_size != kernels::kBlockTokens) {
    return absl::UnimplementedError(absl::StrCat("block size ", config.block_size,
                                                 ": the CPU kernels read blocks of ", kernels::kBlockTokens,
                                                 " tokens"));
  }
  if (config.head_dim < 16 || config.head_dim % 16 != 0 || config.head_dim > kernels::kMaxHeadDim) {
    return absl::UnimplementedError(absl::StrCat("head dimension ", config.head_dim,
                                                 ": the CPU kernels take multiples of 16 up to ",
                                                 kernels::kMaxHeadDim));
  }
  if (config.format == KvFormat::kInt8) return absl::UnimplementedError("an int8 KV cache has no CPU kernel");
  if (config.format == KvFormat::kF32 && element_ != kernels::KvElement::kF32) {
    return absl::UnimplementedError("a float32 KV cache has a kernel on the reference path only");
  }
  if (config.num_layers < 1 || config.num_kv_heads < 1 || config.num_blocks < 1) {
    return absl::InvalidArgumentError(absl::StrCat("a KV cache of ", config.num_layers, " layers, ",
                                                   config.num_kv_heads, " heads and ", config.num_blocks,
                                                   " blocks"));
  }
  QANAT_ASSIGN_OR_RETURN(base_, arena_.Allocate(BlockBytes(config) * config.num_blocks, "the KV cache"));
  config_ = config;
  return absl::OkStatus();
}

int64_t KvArena::LayerBlockBytes(const KvConfig& config) const {
  return 2 * kernels::KvHalfBytes(element_, config.head_dim) * config.num_kv_heads;
}

int64_t KvArena::BlockBytes(const KvConfig& config) const {
  return LayerBlockBytes(config) * config.num_layers;
}

kernels::KvLayer KvArena::Layer(int layer) const {
  QANAT_DCHECK(base_ != nullptr && layer >= 0 && layer < config_.num_layers);
  return {base_ + layer * LayerBlockBytes(config_) * config_.num_blocks, config_.num_kv_heads,
          config_.head_dim};
}

void KvArena::Poison(absl::Span<const int32_t> blocks) {
  const int64_t bytes = LayerBlockBytes(config_);
  for (int layer = 0; layer < config_.num_layers; ++layer) {
    for (const int32_t block : blocks) std::memset(Layer(layer).base + block * bytes, 0xFF, bytes);
  }
}

}  // namespace qanat::backend
