// The blocks of the KV arena, by reference count.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "worker/kv/eviction_order.h"

namespace qanat::kv {

class BlockPool;

// What: one reference to one block; the block cannot be reused while it lives. Move-only; lives shorter than
// the pool. Threads: one.
class BlockRef {
 public:
  BlockRef() = default;
  BlockRef(BlockRef&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), id_(std::exchange(other.id_, kNoBlock)) {}
  BlockRef& operator=(BlockRef&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~BlockRef();

  BlockId id() const { return id_; }

 private:
  friend class BlockPool;
  BlockRef(BlockPool* pool, BlockId id) : pool_(pool), id_(id) {}

  BlockPool* pool_ = nullptr;
  BlockId id_ = kNoBlock;
};

// What: counts references and hands out blocks. Knows of a block's contents only whether a request may hit
// them ("cached"); the prefix cache says so.
// Owns: the free list. Outlives every BlockRef.
// Threads: one. Errors: none; an empty pool is the caller's to see (num_unreferenced).
//
// Invariants:
//  1. A block is in the order exactly when its count is 0; it keeps its contents there until it is taken.
//  2. num_free() + num_cached() + num_referenced() == num_blocks().
class BlockPool {
 public:
  // `order` is empty and made for ids 0 .. num_blocks - 1.
  BlockPool(int32_t num_blocks, std::unique_ptr<EvictionOrder> order);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // The block that Take would give. REQUIRES: num_unreferenced() > 0.
  BlockId Next() const { return order_->Next(); }
  // Takes Next() for new contents: its generation moves on. REQUIRES: num_unreferenced() > 0,
  // !cached(Next()).
  BlockRef Take() { return Take(Next()); }
  // The same with any block of the free list.
  BlockRef Take(BlockId id);
  // One more reference to `id`, whose contents stay.
  BlockRef Share(BlockId id);

  // REQUIRES: a block that becomes cached is referenced.
  void SetCached(BlockId id, bool cached);

  int32_t count(BlockId id) const { return blocks_[id].count; }
  bool cached(BlockId id) const { return blocks_[id].cached; }
  // How many times the block was taken: with the id it names contents for good.
  uint64_t generation(BlockId id) const { return blocks_[id].generation; }

  int32_t num_blocks() const { return static_cast<int32_t>(blocks_.size()); }
  // What Take can give: num_free() + num_cached().
  int32_t num_unreferenced() const { return order_->size(); }
  int32_t num_free() const { return num_unreferenced() - num_cached_; }
  int32_t num_cached() const { return num_cached_; }  // of the unreferenced
  int32_t num_referenced() const { return num_blocks() - num_unreferenced(); }

  const EvictionOrder& order() const { return *order_; }
  void CheckInvariants() const;

 private:
  friend class BlockRef;
  struct Block {
    int32_t count = 0;
    bool cached = false;
    uint64_t generation = 0;
  };

  void Release(BlockId id);

  std::vector<Block> blocks_;
  std::unique_ptr<EvictionOrder> order_;
  int32_t num_cached_ = 0;
};

inline BlockRef::~BlockRef() {
  if (pool_ != nullptr) pool_->Release(id_);
}

}  // namespace qanat::kv
