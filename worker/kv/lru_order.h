// Least recently used first.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/kv/eviction_order.h"

namespace qanat::kv {

// What: a doubly linked ring through two arrays; uncached blocks enter at the front, cached ones at the back.
class LruOrder final : public EvictionOrder {
 public:
  // For ids 0 .. num_blocks - 1. Starts empty.
  explicit LruOrder(int32_t num_blocks);

  void Add(BlockId id, bool cached) override;
  void Remove(BlockId id) override;
  BlockId Next() const override;
  int32_t size() const override { return size_; }
  std::vector<BlockId> ToVector() const override;

 private:
  struct Links {
    BlockId previous = kNoBlock;
    BlockId next = kNoBlock;  // kNoBlock: not in the ring
  };

  // links_[end_] closes the ring: the block after it is the next to be reused.
  const BlockId end_;
  int32_t size_ = 0;
  std::vector<Links> links_;
};

}  // namespace qanat::kv
