// The workers that this router knows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/hash/block_hash.h"
#include "router/cluster/load_ledger.h"
#include "router/cluster/worker_watch.h"
#include "router/index/index.h"
#include "router/index/pending_credits.h"
#include "router/link/worker_link.h"
#include "router/snapshot/cluster_snapshot.h"

namespace qanat::router {

// A worker that was chosen: the way to it, and while this lives its place in the ledger and the credit for
// the blocks that it will have.
struct Dispatch {
  LoadLedger::Entry entry;
  PendingCredits::Guard credit;
  WorkerLink* link;  // not null; of the cluster, which outlives every dispatch
  std::string address;
};

// What: membership, cached blocks and load of the cluster; publishes snapshots. Owns the links, the index and
// the ledger; outlives every Dispatch. Threads: any. Errors: a worker that cannot be worked with is left out
// and its link told why.
//
// A model id means one fingerprint and block size: a worker with others is refused while one of the first
// kind serves. A worker under another hash key is refused: its cache could not be spoken of.
class Cluster {
 public:
  // `hash_key`: the cluster key, to compare the workers' hash_check with. `clock` outlives this. `on_change`
  // is called after each change of a worker's state, by whoever brought it, without a lock; it must not
  // block.
  Cluster(
      const hash::HashKey& hash_key, const Clock& clock, std::function<void()> on_change = [] {});
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Adds a worker and opens its link.
  WorkerId Add(std::string address, std::unique_ptr<WorkerLink> link) EXCLUDES(mu_);
  // Closes every link: all calls end. Idempotent.
  void Close() EXCLUDES(mu_);

  ClusterSnapshot Snapshot() const EXCLUDES(mu_);
  // Who has the blocks of a snapshot's workers, and who will have which.
  const Index& index() const { return index_; }
  const PendingCredits& pending() const { return pending_; }
  // Of one worker.
  WorkerWatch::Status WatchStatus(WorkerId id) const EXCLUDES(mu_);
  // Over all workers, ever.
  int64_t Resyncs(ResyncCause cause) const EXCLUDES(mu_);

  // What time alone brings: workers that fall silent, blocks of lost ones that are forgotten. Logs what the
  // index and the credits counted that should not be. To be called every kTick.
  void Tick() EXCLUDES(mu_);
  static constexpr Duration kTick = std::chrono::milliseconds(50);

  // Counts a call to the worker: `tokens` of its prompt are to be computed, `blocks` are the prompt's. Unset
  // when the worker is not ready any more.
  std::optional<Dispatch> TryDispatch(WorkerId id, int64_t tokens, absl::Span<const hash::BlockHash> blocks,
                                      int32_t choices = 1) EXCLUDES(mu_);
  // The call has ended, at this version of the worker's load (0: it was never in it). The credit goes when
  // the worker has told of that version, so that it is not missed between the last message of the call and
  // the delta with its blocks.
  void End(Dispatch dispatch, uint64_t load_version) EXCLUDES(mu_);
  // The worker said that it takes nothing new: it gets nothing until it is ready again.
  void MarkDraining(WorkerId id) EXCLUDES(mu_);

 private:
  // Where one link reports to.
  class Member final : public LinkObserver {
   public:
    Member(Cluster& cluster, WorkerId id, std::unique_ptr<WorkerLink> link)
        : cluster_(cluster), id_(id), link_(std::move(link)), watch_(cluster.index_, cluster.clock_) {}
    absl::Status OnReady(ReadyWorker worker) override { return cluster_.OnReady(*this, std::move(worker)); }
    void OnDown(const absl::Status& why) override { cluster_.OnDown(*this, why); }
    WatchPosition OnWatchBegin() override { return watch_.OnBegin(); }
    WatchVerdict OnFrame(const api::WatchFrame& frame) override { return cluster_.OnFrame(*this, frame); }
    void OnWatchEnd(const absl::Status& why) override { cluster_.OnWatchEnd(*this, why); }
    void OnSign() override { watch_.OnSign(); }
    WorkerId id() const { return id_; }
    WorkerLink& link() { return *link_; }
    WorkerWatch& watch() { return watch_; }

    // Of the latest OnDown. Guarded by the cluster's mu_.
    std::string last_problem;

   private:
    Cluster& cluster_;
    const WorkerId id_;
    const std::unique_ptr<WorkerLink> link_;
    WorkerWatch watch_;
  };

  absl::Status OnReady(Member& member, ReadyWorker worker) EXCLUDES(mu_);
  void OnDown(Member& member, const absl::Status& why) EXCLUDES(mu_);
  WatchVerdict OnFrame(Member& member, const api::WatchFrame& frame) EXCLUDES(mu_);
  void OnWatchEnd(Member& member, const absl::Status& why) EXCLUDES(mu_);

  // Publishes the worker's holder, if it is another than before.
  void UpdateHolder(Member& member) EXCLUDES(mu_);
  // Ready or suspect, as the watch says.
  void UpdateTrust(Member& member) EXCLUDES(mu_);
  void LogSurprises() EXCLUDES(mu_);
  std::vector<Member*> Members() const EXCLUDES(mu_);
  // The one object for the worker's model, or FAILED_PRECONDITION when its id means another model now.
  absl::StatusOr<std::shared_ptr<const Model>> FindOrMakeModel(const ReadyWorker& worker) const REQUIRES(mu_);
  // Replaces the published picture by one where `change` was applied to the worker.
  template <typename Change>
  void Publish(WorkerId id, Change change) REQUIRES(mu_);

  const hash::HashKey hash_key_;
  const Clock& clock_;
  const std::function<void()> on_change_;
  Index index_;
  PendingCredits pending_;
  LoadLedger ledger_;

  mutable Mutex mu_;  // before the ledger's and the watches'
  bool closing_ GUARDED_BY(mu_) = false;
  // When they were logged last.
  int64_t logged_not_closed_ GUARDED_BY(mu_) = 0;
  int64_t logged_refused_ GUARDED_BY(mu_) = 0;
  std::vector<std::unique_ptr<Member>> members_ GUARDED_BY(mu_);
  // Immutable once published, shared with snapshots; parallel to members_.
  std::shared_ptr<const std::vector<Worker>> workers_ GUARDED_BY(mu_) =
      std::make_shared<std::vector<Worker>>();
};

}  // namespace qanat::router
