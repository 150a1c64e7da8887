// Which blocks are being computed right now, so that nobody computes them a second time beside it.
#pragma once

#include <array>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/hash/block_hash.h"
#include "worker/engine/request.h"

namespace qanat::engine {

// What: the hashes of the full blocks that running sequences have yet to compute, with how many of each class
// do. Threads: the engine thread. Errors: none.
class Producing {
 public:
  void Add(absl::Span<const hash::BlockHash> hashes, Priority priority) {
    for (const hash::BlockHash hash : hashes) ++by_hash_[hash][Index(priority)];
    total_ += static_cast<int64_t>(hashes.size());
  }
  // REQUIRES: added before, with this class.
  void Remove(absl::Span<const hash::BlockHash> hashes, Priority priority) {
    for (const hash::BlockHash hash : hashes) {
      const auto it = by_hash_.find(hash);
      QANAT_CHECK(it != by_hash_.end() && it->second[Index(priority)] > 0);
      --it->second[Index(priority)];
      if (it->second == Counts{}) by_hash_.erase(it);
    }
    total_ -= static_cast<int64_t>(hashes.size());
  }
  // Whether someone of class `priority` or a higher one computes it.
  bool By(hash::BlockHash hash, Priority priority) const {
    const auto it = by_hash_.find(hash);
    if (it == by_hash_.end()) return false;
    for (size_t i = 0; i <= Index(priority); ++i) {
      if (it->second[i] > 0) return true;
    }
    return false;
  }
  // Blocks added and not removed, equal ones each.
  int64_t total() const { return total_; }

 private:
  using Counts = std::array<int32_t, 3>;  // by Priority, the highest first
  static size_t Index(Priority priority) { return static_cast<size_t>(priority); }

  absl::flat_hash_map<hash::BlockHash, Counts> by_hash_;
  int64_t total_ = 0;
};

}  // namespace qanat::engine
