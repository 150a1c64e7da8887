// Who has how much to do.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/api/watch.h"
#include "common/base/mutex.h"
#include "router/snapshot/cluster_snapshot.h"

namespace qanat::router {

// What: the load of each worker: what it told last, with this router's own calls that it did not know of
// then. Owns the numbers; outlives every entry taken. Threads: any. Errors: none: a call cannot be counted
// twice, nor forgotten, because an Entry is the count.
//
// A worker numbers the states of its load, and says in which one it first counts a call, and in which one no
// more. Until a load of the first or a later one is here, the call is added to what the worker told; until
// one of the second is, what has ended is taken off.
//
// Invariants: (1) in_flight of a worker == its live entries; (2) last_dispatch of a worker <= dispatches_;
// (3) unseen has those live entries that `told` does not count, and unseen_tokens and unseen_choices are
// their sums; (4) ended has what `told` counts still.
class LoadLedger {
 public:
  // One open call to one worker, from the choice of that worker to the call's end.
  class Entry {
   public:
    Entry(Entry&& other) noexcept;
    Entry& operator=(Entry&& other) noexcept;
    ~Entry();
    WorkerId worker() const { return worker_; }
    // The worker counts the call from this version of its load on.
    void Accept(uint64_t load_version);
    // The call has ended: the worker counts it no more from this version on. 0: not said.
    void End(uint64_t load_version) { ended_ = load_version; }

   private:
    friend class LoadLedger;
    Entry(LoadLedger* ledger, WorkerId worker, uint64_t number, int32_t choices)
        : ledger_(ledger), worker_(worker), number_(number), choices_(choices) {}

    LoadLedger* ledger_;  // null: moved from
    WorkerId worker_;
    uint64_t number_;  // of the dispatch
    int32_t choices_;
    uint64_t ended_ = 0;
  };

  // Room for one more worker, of the next WorkerId.
  void AddWorker() EXCLUDES(mu_);
  // `tokens`: of the prompt, to be computed; `choices`: sequences that will decode. REQUIRES: the worker was
  // added.
  [[nodiscard]] Entry Take(WorkerId worker, int64_t tokens, int32_t choices = 1) EXCLUDES(mu_);
  // What the worker told. A version lower than the one before tells nothing.
  void Update(WorkerId worker, const api::Load& load) EXCLUDES(mu_);
  // The worker is another one than before: what the old one told means nothing.
  void Forget(WorkerId worker) EXCLUDES(mu_);
  // [workers] as of now.
  std::vector<WorkerLoad> Loads() const EXCLUDES(mu_);

 private:
  struct Unseen {
    int64_t tokens;
    int32_t choices;
    uint64_t accepted = 0;  // version; 0: not yet
  };
  struct Ended {
    uint64_t version;
    int32_t choices;
  };
  struct Account {
    WorkerLoad told;  // in_flight and last_dispatch are ours
    uint64_t version = 0;
    std::unordered_map<uint64_t, Unseen> unseen;  // by the entry's number
    int64_t unseen_tokens = 0;
    int32_t unseen_choices = 0;
    std::vector<Ended> ended;
  };

  void Accept(WorkerId worker, uint64_t number, uint64_t load_version) EXCLUDES(mu_);
  void Release(const Entry& entry) EXCLUDES(mu_);
  // False when it was seen before.
  static bool See(Account& account, uint64_t number);

  mutable Mutex mu_;
  std::vector<Account> accounts_ GUARDED_BY(mu_);
  uint64_t dispatches_ GUARDED_BY(mu_) = 0;
};

}  // namespace qanat::router
