// What the cluster knows of one worker from its Watch.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>

#include "common/api/watch.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "router/cluster/watch_replica.h"
#include "router/index/index.h"
#include "router/index/pending_credits.h"
#include "router/link/worker_link.h"
#include "router/snapshot/cluster_snapshot.h"

namespace qanat::router {

// A worker tells its load this often, whatever happens.
inline constexpr Duration kBeat = std::chrono::milliseconds(100);
// Three beats are missing and the fourth is due.
inline constexpr Duration kSilence = 4 * kBeat;
// A step that takes longer is not waited for: other workers are chosen until it ends. The worker's own
// watchdog, which ends it, allows more where it predicts more.
inline constexpr Duration kLongestStep = std::chrono::seconds(10);
// How long the blocks of a worker that cannot be reached are remembered.
inline constexpr Duration kKeepBlocks = std::chrono::seconds(5);

// Why a worker that is connected is not trusted.
enum class Doubt : uint8_t {
  kNone,
  kSilent,  // nothing came from it for a while
  kHung,    // its step does not end
};

// What: a worker's replica behind a lock, what follows from when something came, and the credits of calls
// that ended until the replica has their blocks. Owns all of that; index, clock and the credits' table
// outlive it. Threads: any. Errors: none.
class WorkerWatch {
 public:
  WorkerWatch(Index& index, const Clock& clock) : clock_(clock), replica_(index) {}

  // LinkObserver's news.
  void OnReady(uint64_t epoch, int64_t capacity) EXCLUDES(mu_);
  void OnDown() EXCLUDES(mu_);
  WatchPosition OnBegin() EXCLUDES(mu_);
  WatchVerdict OnFrame(const api::WatchFrame& frame) EXCLUDES(mu_);
  // `for_good`: there will be no other.
  void OnEnd(bool for_good) EXCLUDES(mu_);
  void OnSign() EXCLUDES(mu_);

  // A call has ended at this version of the worker's load. Keeps its credit until the replica has its blocks,
  // or there is no Watch to wait for. Since loads overtake deltas, though by no more than a tick of the
  // worker, that is at the second load of that version or later.
  void KeepCredit(PendingCredits::Guard credit, uint64_t load_version) EXCLUDES(mu_);

  // Forgets the blocks of a worker that has been down for kKeepBlocks.
  void Expire() EXCLUDES(mu_);
  // Of a worker that is connected.
  Doubt doubt() const EXCLUDES(mu_);

  // What decisions may credit the worker with. Whoever changed it publishes it, then closes what was before.
  std::optional<HolderId> holder() const EXCLUDES(mu_);
  void CloseRetired() EXCLUDES(mu_);

  struct Status {
    int64_t index_blocks = 0;
    bool in_step = false;  // as of the last frame, the index is the worker's cache
    std::array<int64_t, std::size(kResyncCauses)> resyncs{};  // by ResyncCause
  };
  Status status() const EXCLUDES(mu_);

 private:
  // A credit of a call that ended at `load_version`.
  struct Kept {
    uint64_t load_version;
    bool told;  // a load of that version or later has come
    PendingCredits::Guard credit;
  };
  // A load of this version has come.
  void ReleaseCredits(uint64_t load_version) REQUIRES(mu_);
  void DropCredits() REQUIRES(mu_);

  const Clock& clock_;

  mutable Mutex mu_;
  WatchReplica replica_ GUARDED_BY(mu_);
  std::optional<Time> down_since_ GUARDED_BY(mu_);
  // While the Watch tells loads: when something came last, and how long the step had taken then.
  std::optional<Time> heard_ GUARDED_BY(mu_);
  Duration step_age_ GUARDED_BY(mu_){};
  bool watching_ GUARDED_BY(mu_) = false;
  uint64_t load_version_ GUARDED_BY(mu_) = 0;  // of the latest load
  std::deque<Kept> kept_ GUARDED_BY(mu_);      // at most kMostKept
};

}  // namespace qanat::router
