// Lowest first, and runs of neighbours.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "worker/kv/eviction_order.h"

namespace qanat::kv {

// What: free blocks as runs of neighbouring ids; the first run that is long enough is the one to take from.
// Keeps no contents: a cached block must not be added. Everything is O(log of the number of runs), but
// FindRun, which looks at runs from the lowest on.
//
// Invariant: runs are not empty, do not overlap, and no two of them touch.
class FirstFitOrder final : public EvictionOrder {
 public:
  void Add(BlockId id, bool cached) override;
  void Remove(BlockId id) override;
  BlockId Next() const override;
  int32_t size() const override { return size_; }
  std::vector<BlockId> ToVector() const override;

  // The first block of the lowest run of at least `length` blocks; kNoBlock when there is none. REQUIRES:
  // length > 0.
  BlockId FindRun(int32_t length) const;

 private:
  std::map<BlockId, int32_t> runs_;  // length by first block
  int32_t size_ = 0;
};

}  // namespace qanat::kv
