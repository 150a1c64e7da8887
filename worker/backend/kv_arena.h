// The KV cache of a CPU backend.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/kv_layer.h"
#include "worker/backend/arena.h"
#include "worker/backend/backend.h"

namespace qanat::backend {

// What: the blocks of all layers, each layer's side by side, as kernels/kv_layer.h lays them out. The element
// is what the kernels of the path read, so the reference path keeps float32 where others keep bf16. Borrows
// the arena. Threads: one; kernels write and read through the views. Errors: UNIMPLEMENTED for shapes without
// a kernel.
class KvArena {
 public:
  KvArena(Arena& arena, kernels::KvElement element) : arena_(arena), element_(element) {}

  absl::Status Allocate(const KvConfig& config);

  int64_t BlockBytes(const KvConfig& config) const;
  const KvConfig& config() const { return config_; }
  kernels::KvLayer Layer(int layer) const;
  void Poison(absl::Span<const int32_t> blocks);

 private:
  int64_t LayerBlockBytes(const KvConfig& config) const;

  Arena& arena_;
  const kernels::KvElement element_;
  KvConfig config_;
  std::byte* base_ = nullptr;
};

}  // namespace qanat::backend
