// How a table comes by its blocks: the one decision that the modes of --kv differ in.
#pragma once

#include <cstdint>
#include <memory>

#include "worker/kv/eviction_order.h"

namespace qanat::kv {

enum class Layout : uint8_t {
  kPaged,       // a block when it is needed, wherever one is free
  kContiguous,  // as servers did before there were pages: one run of neighbours for the longest case, at once
};

// What: decides how much a table takes and where. Owned by the KvManager, whose pool it chooses for. Threads:
// one. Errors: none.
class Placement {
 public:
  virtual ~Placement() = default;

  // The free list, empty, of a pool of `num_blocks`. REQUIRES: called once, before anything else; the list
  // lives as long as this.
  virtual std::unique_ptr<EvictionOrder> MakeOrder(int32_t num_blocks) = 0;
  // How many tokens a table has blocks for that is to hold `num_tokens` now, and `longest` at most ever.
  virtual int32_t Held(int32_t num_tokens, int32_t longest) const = 0;
  // Whether `num_blocks` can be taken out of `free`, of which others may still come for `promised`.
  virtual bool Fits(int32_t num_blocks, int32_t promised, int32_t free) const = 0;
  // Where the next of `num_blocks` is taken, the one before it at `last` (kNoBlock: this is the first).
  // REQUIRES: Fits(num_blocks, 0, all that is free).
  virtual BlockId Next(BlockId last, int32_t num_blocks) const = 0;
};

std::unique_ptr<Placement> MakePlacement(Layout layout);

}  // namespace qanat::kv
