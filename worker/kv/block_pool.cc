#include "worker/kv/block_pool.h"

#include "common/base/check.h"

namespace qanat::kv {

BlockPool::BlockPool(int32_t num_blocks, std::unique_ptr<EvictionOrder> order)
    : blocks_(num_blocks), order_(std::move(order)) {
  // Each goes to the front: from the last, so that block 0 is taken first.
  for (BlockId id = num_blocks - 1; id >= 0; --id) order_->Add(id, false);
}

BlockPool::~BlockPool() {
  QANAT_CHECK(num_referenced() == 0) << num_referenced() << " blocks outlive their pool's users";
}

BlockRef BlockPool::Take(BlockId id) {
  Block& block = blocks_[id];
  QANAT_CHECK(block.count == 0) << "block " << id << " is not free";
  QANAT_CHECK(!block.cached) << "block " << id << " still holds what a request may hit";
  order_->Remove(id);
  block.count = 1;
  ++block.generation;
  return BlockRef(this, id);
}

BlockRef BlockPool::Share(BlockId id) {
  Block& block = blocks_[id];
  if (block.count == 0) {
    order_->Remove(id);
    if (block.cached) --num_cached_;
  }
  ++block.count;
  return BlockRef(this, id);
}

void BlockPool::SetCached(BlockId id, bool cached) {
  Block& block = blocks_[id];
  QANAT_DCHECK(block.cached != cached);
  block.cached = cached;
  if (block.count > 0) return;
  QANAT_CHECK(!cached) << "block " << id << " is nobody's: it has no contents to cache";
  --num_cached_;
  order_->Remove(id);
  order_->Add(id, false);
}

void BlockPool::Release(BlockId id) {
  Block& block = blocks_[id];
  QANAT_CHECK(block.count > 0) << "block " << id << " is released once too often";
  if (--block.count > 0) return;
  order_->Add(id, block.cached);
  if (block.cached) ++num_cached_;
}

void BlockPool::CheckInvariants() const {
  std::vector<bool> in_order(blocks_.size());
  int32_t num_cached = 0;
  for (const BlockId id : order_->ToVector()) {
    QANAT_CHECK(!in_order[id]) << "block " << id << " is in the free list twice";
    in_order[id] = true;
    num_cached += blocks_[id].cached ? 1 : 0;
  }
  for (BlockId id = 0; id < num_blocks(); ++id) {
    QANAT_CHECK(in_order[id] == (blocks_[id].count == 0))
        << "block " << id << " with " << blocks_[id].count
        << " references, in the free list: " << in_order[id];
  }
  QANAT_CHECK(num_cached == num_cached_);
  QANAT_CHECK(num_free() + num_cached_ + num_referenced() == num_blocks());
}

}  // namespace qanat::kv
