// Who holds which block.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "common/hash/block_hash.h"
#include "common/hash/residency.h"
#include "router/index/epochs.h"
#include "router/index/holder_set.h"
#include "router/index/shard.h"
#include "router/snapshot/cluster_snapshot.h"

namespace qanat::router {

struct IndexStats {
  int64_t distinct_blocks = 0;
  int64_t bytes = 0;    // of tables and sets
  int64_t stored = 0;   // blocks that holders gained, ever
  int64_t removed = 0;  // and lost, by Remove
};

// What: for each holder, a set of one worker's resident blocks as its Watch told them, which blocks it has.
// A worker that restarts or sends a new snapshot gets a new holder; the old one is closed. One index serves
// all models: block hashes of different models differ. Owns its memory: at most 32 bytes a distinct block,
// beyond some kilobytes, and no more than the sum of the open holders' capacities.
//
// Threads: Match from any, without a lock. A holder's Open, Add, Remove, Residency and Close: one at a time;
// different holders at once. Sweep and Stats: any. Errors: none; what is surprising is counted and returned.
class Index {
 public:
  Index();
  ~Index();
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  // An empty set that may hold `capacity` blocks. REQUIRES: fewer than kMostHolders are open.
  HolderId Open(int64_t capacity) EXCLUDES(mu_);

  // Returns how many of the blocks changed something: fewer than given means that some were there already
  // (or not there), or are beyond the capacity: the holder's Watch has lost something. Where a change of a
  // full cache comes in one piece, remove first. REQUIRES: the holder is open.
  size_t Add(HolderId id, absl::Span<const hash::BlockHash> blocks) EXCLUDES(mu_);
  size_t Remove(HolderId id, absl::Span<const hash::BlockHash> blocks) EXCLUDES(mu_);

  // What the holder has, in brief. REQUIRES: as Add.
  hash::Residency Residency(HolderId id) const EXCLUDES(mu_);

  // No Match that begins after this credits the holder; its memory goes with a later Sweep, and only then may
  // its id be given again. REQUIRES: as Add.
  void Close(HolderId id) EXCLUDES(mu_);

  // Looks for closed holders' blocks in up to `slots` slots and forgets them. False: call again, there is
  // more.
  bool Sweep(int64_t slots) EXCLUDES(sweep_mu_, mu_);

  // depths[i]: how many blocks of the prompt, from its first, holders[i] has; 0 for one that is not open.
  // Looks at few blocks only, because who has a block has its parents, too; one prompt in kSample is checked
  // for that and counted block by block where it is not so. REQUIRES: depths.size() == holders.size().
  void Match(absl::Span<const hash::BlockHash> prompt, absl::Span<const HolderId> holders,
             absl::Span<int32_t> depths) const;
  static constexpr uint64_t kSample = 32;

  IndexStats Stats() const;
  // Matches of the sample that met a block without its parent, ever.
  int64_t not_closed() const { return not_closed_.load(std::memory_order_relaxed); }
  // Checks every shard's; for tests and debug builds.
  void CheckInvariants() const;

 private:
  class Search;

  enum class HolderState : uint8_t { kFree, kOpen, kClosed };
  struct Holder {
    HolderState state = HolderState::kFree;
    int64_t capacity = 0;
    hash::Residency residency;  // touched by the holder's one writer, as state and capacity
  };

  static constexpr size_t kShards = size_t{1} << kShardBits;
  Shard& ShardOf(uint64_t mix) const { return *shards_[mix >> (64 - kShardBits)]; }
  uint64_t Find(hash::BlockHash hash) const;
  Holder& OpenHolder(HolderId id) const EXCLUDES(mu_);
  // Blocks of the prompt from the first that the holder has, counted one by one. Counts where a block is
  // behind.
  int32_t Scan(absl::Span<const hash::BlockHash> prompt, Lane lane, int32_t claimed) const;

  mutable Epochs epochs_;
  OpenHolders open_;
  HolderSets sets_{epochs_};
  std::array<std::unique_ptr<Shard>, kShards> shards_;
  std::atomic<int64_t> stored_{0};
  std::atomic<int64_t> removed_{0};
  mutable std::atomic<int64_t> not_closed_{0};

  // A sweep under way: of these holders, through shard after shard.
  Mutex sweep_mu_;  // before mu_
  std::vector<HolderId> sweeping_ GUARDED_BY(sweep_mu_);
  size_t sweep_shard_ GUARDED_BY(sweep_mu_) = 0;
  Shard::Cursor cursor_ GUARDED_BY(sweep_mu_);

  mutable Mutex mu_;
  mutable std::deque<Holder> holders_ GUARDED_BY(mu_);  // by HolderId; a Holder never moves
  std::vector<HolderId> free_ GUARDED_BY(mu_);
  std::vector<HolderId> closed_ GUARDED_BY(mu_);  // since the sweep began
};

}  // namespace qanat::router
