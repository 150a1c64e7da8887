// Blocks that are on their way into a worker's cache.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "common/hash/block_hash.h"
#include "router/snapshot/cluster_snapshot.h"

namespace qanat::router {

// What: counts, per block and worker, the requests that were sent there to compute it and whose worker has
// not told yet that it has it, so that requests with the same new prefix follow the first. Outlives its
// guards. Threads: any. Errors: none; what exceeds the bound is not credited, and counted.
class PendingCredits {
 public:
  // Takes its credits back at its end.
  class Guard {
   public:
    Guard() = default;
    Guard(Guard&& other) noexcept
        : credits_(std::exchange(other.credits_, nullptr)),
          worker_(other.worker_),
          blocks_(std::move(other.blocks_)) {}
    Guard& operator=(Guard&& other) noexcept {
      std::swap(credits_, other.credits_);
      std::swap(worker_, other.worker_);
      std::swap(blocks_, other.blocks_);
      return *this;
    }
    ~Guard() {
      if (credits_ != nullptr) credits_->Release(worker_, blocks_);
    }

   private:
    friend class PendingCredits;
    Guard(PendingCredits* credits, WorkerId worker, std::vector<hash::BlockHash> blocks)
        : credits_(credits), worker_(worker), blocks_(std::move(blocks)) {}

    PendingCredits* credits_ = nullptr;  // null: holds nothing
    WorkerId worker_{};
    std::vector<hash::BlockHash> blocks_;
  };

  static constexpr size_t kDefaultMostEntries = size_t{1} << 17;

  // At most about `most_entries` pairs of block and worker have credits at once.
  explicit PendingCredits(size_t most_entries = kDefaultMostEntries);
  // REQUIRES: no guard is left.
  ~PendingCredits();
  PendingCredits(const PendingCredits&) = delete;
  PendingCredits& operator=(const PendingCredits&) = delete;

  // Credits the worker with `blocks`: those of one prompt, in its order, from the first that the worker has
  // not.
  [[nodiscard]] Guard Credit(WorkerId worker, absl::Span<const hash::BlockHash> blocks);

  // How deep in the prompt the worker will be that is at `depth` now: `depth` or more.
  int32_t Extend(WorkerId worker, absl::Span<const hash::BlockHash> prompt, int32_t depth) const;

  int64_t entries() const;
  // Blocks that were not credited for want of room, ever.
  int64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kShards = 16;
  using Key = std::pair<hash::BlockHash, WorkerId>;
  struct alignas(64) Shard {
    mutable Mutex mu;
    absl::flat_hash_map<Key, int32_t> counts GUARDED_BY(mu);
  };

  static size_t ShardOf(hash::BlockHash hash) { return hash::Mix(hash) % kShards; }
  bool Has(WorkerId worker, hash::BlockHash hash) const;
  void Release(WorkerId worker, absl::Span<const hash::BlockHash> blocks);

  const size_t most_in_shard_;
  std::array<Shard, kShards> shards_;
  std::atomic<int64_t> refused_{0};
};

}  // namespace qanat::router
