// Which unreferenced block is reused next: the one decision that cache policies differ in.
#pragma once

#include <cstdint>
#include <vector>

namespace qanat::kv {

// A physical block of the device's KV arena.
using BlockId = int32_t;
inline constexpr BlockId kNoBlock = -1;

// What: the free list. Holds exactly the blocks that nobody references; all operations are O(1) but ToVector.
// Threads: one. Errors: none.
//
// Whatever the policy, a cached block must come after its cached children (docs/engine.md, "Residency stays
// prefix-closed"). Blocks are added children first, so keeping the order of arrival among cached blocks that
// were added together is enough.
class EvictionOrder {
 public:
  virtual ~EvictionOrder() = default;

  // REQUIRES: `id` is not in the order. `cached`: it holds contents that a request may hit; others go first.
  virtual void Add(BlockId id, bool cached) = 0;
  // REQUIRES: `id` is in the order.
  virtual void Remove(BlockId id) = 0;
  // The block to reuse next. REQUIRES: size() > 0.
  virtual BlockId Next() const = 0;
  virtual int32_t size() const = 0;
  // All of it, the next to be reused first.
  virtual std::vector<BlockId> ToVector() const = 0;
};

}  // namespace qanat::kv
