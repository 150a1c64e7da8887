// Who has how much to do.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/mutex.h"
#include "router/snapshot/cluster_snapshot.h"

namespace qanat::router {

// What: counts this router's open calls to each worker. Owns the counts; outlives every entry taken. Threads:
// any. Errors: none: a call cannot be counted twice, nor forgotten, because an Entry is the count.
//
// Invariants: (1) in_flight of a worker == its live entries; (2) last_dispatch of a worker <= dispatches_.
class LoadLedger {
 public:
  // One open call to one worker, from the choice of that worker to the call's end.
  class Entry {
   public:
    Entry(Entry&& other) noexcept;
    Entry& operator=(Entry&& other) noexcept;
    ~Entry();
    WorkerId worker() const { return worker_; }

   private:
    friend class LoadLedger;
    Entry(LoadLedger* ledger, WorkerId worker) : ledger_(ledger), worker_(worker) {}

    LoadLedger* ledger_;  // null: moved from
    WorkerId worker_;
  };

  // Room for one more worker, of the next WorkerId.
  void AddWorker() EXCLUDES(mu_);
  // REQUIRES: the worker was added.
  [[nodiscard]] Entry Take(WorkerId worker) EXCLUDES(mu_);
  // [workers] as of now.
  std::vector<WorkerLoad> Loads() const EXCLUDES(mu_);

 private:
  void Release(WorkerId worker) EXCLUDES(mu_);

  mutable Mutex mu_;
  std::vector<WorkerLoad> loads_ GUARDED_BY(mu_);
  uint64_t dispatches_ GUARDED_BY(mu_) = 0;
};

}  // namespace qanat::router
