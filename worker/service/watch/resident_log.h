// The states of the resident set, for readers that follow it at their own pace.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/api/watch.h"
#include "common/base/mutex.h"
#include "common/hash/block_hash.h"
#include "common/hash/net_change.h"

namespace qanat::service {

// What: a replica of the resident set, the last deltas that led to it, and the newest load. A reader is a
// place in it (Reader): one that fell behind the oldest delta begins again with a snapshot, so what a slow
// reader costs is its place, and memory is bounded by the set, the deltas and the snapshots being read.
// Readers at snapshots share one while deltas lead on from it. Owns all of it. Threads: any; a lock is held
// for the copy of a frame, or of the whole set where a snapshot begins. Errors: none.
//
// Invariants
//  1 states are numbered from 1, the empty set; delta i of deltas_ leads to state head_ - deltas_.size() + 1
//  + i 2 residency_ is that of resident_, and of the last delta 3 deltas_cost_ is the sum of Cost over
//  deltas_, <= options_.log_hashes
class ResidentLog {
 public:
  struct Options {
    // Of a delta or of a chunk of a snapshot: no frame is larger, whatever there is to tell.
    size_t frame_hashes = 4096;
    // In all deltas that are kept; each counts for kDeltaCost more. Beyond them, a reader needs a snapshot.
    size_t log_hashes = 1 << 17;
  };
  static constexpr size_t kDeltaCost = 16;

  struct Snapshot {
    uint64_t seq = 0;
    api::Residency residency;
    std::vector<hash::BlockHash> hashes;
  };

  // Where a reader stands. One reader, one thread at a time.
  class Reader {
   private:
    friend class ResidentLog;
    uint64_t seq_ = 0;          // the state it holds; 0: none
    api::Residency residency_;  // of that state
    uint64_t load_number_ = 0;  // of the last load it took
    // Being read; then `next_hash_` is the first of the next chunk.
    std::shared_ptr<const Snapshot> snapshot_;
    bool begun_ = false;
    size_t next_hash_ = 0;
  };

  ResidentLog(uint64_t epoch, const Options& options) : epoch_(epoch), options_(options) {}

  // The set becomes another. Cut into deltas of at most frame_hashes: removals first, so that no state in
  // between is larger than the larger of the two, and each is prefix-closed.
  void Append(const hash::SetDelta& delta) EXCLUDES(mu_);
  // Replaces the load that readers get next; its residency is theirs to fill.
  void SetLoad(const api::Load& load) EXCLUDES(mu_);

  // A reader that holds a state already (0: none) goes on from there, if the log still leads on from it. It
  // gets loads that are set from now on.
  Reader Begin(uint64_t known_epoch, uint64_t known_seq) const EXCLUDES(mu_);
  // What is next for the reader; empty when it is up to date. Frames of a snapshot come without any other
  // between them; otherwise a new load goes before deltas, so that no backlog delays it.
  std::optional<api::WatchFrame> Next(Reader& reader) EXCLUDES(mu_);

  // Snapshots that readers have begun.
  int64_t num_snapshots() const EXCLUDES(mu_);
  void CheckInvariants() const EXCLUDES(mu_);

 private:
  static size_t Cost(const api::Delta& delta) {
    return delta.stored.size() + delta.removed.size() + kDeltaCost;
  }
  void AppendPart(api::Delta part) REQUIRES(mu_);
  uint64_t OldestKnown() const REQUIRES(mu_) { return head_ - deltas_.size(); }
  const api::Residency& ResidencyAt(uint64_t seq) const REQUIRES(mu_);
  void BeginSnapshot(Reader& reader) REQUIRES(mu_);
  api::WatchFrame NextOfSnapshot(Reader& reader) const;

  const uint64_t epoch_;
  const Options options_;

  mutable Mutex mu_;
  absl::flat_hash_set<hash::BlockHash> resident_ GUARDED_BY(mu_);
  api::Residency residency_ GUARDED_BY(mu_);
  uint64_t head_ GUARDED_BY(mu_) = 1;              // the present state
  std::deque<api::Delta> deltas_ GUARDED_BY(mu_);  // the last ones
  size_t deltas_cost_ GUARDED_BY(mu_) = 0;
  api::Residency before_deltas_ GUARDED_BY(mu_);  // of the state that the oldest delta leads on from
  std::weak_ptr<const Snapshot> snapshot_ GUARDED_BY(mu_);  // the newest; gone when nobody reads it
  int64_t num_snapshots_ GUARDED_BY(mu_) = 0;
  api::Load load_ GUARDED_BY(mu_);
  uint64_t load_number_ GUARDED_BY(mu_) = 0;
};

}  // namespace qanat::service
