#include "router/cluster/load_ledger.h"

#include <utility>

#include "common/base/check.h"

namespace qanat::router {

LoadLedger::Entry::Entry(Entry&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)), worker_(other.worker_) {}

LoadLedger::Entry& LoadLedger::Entry::operator=(Entry&& other) noexcept {
  std::swap(ledger_, other.ledger_);
  std::swap(worker_, other.worker_);
  return *this;
}

LoadLedger::Entry::~Entry() {
  if (ledger_ != nullptr) ledger_->Release(worker_);
}

void LoadLedger::AddWorker() {
  MutexLock lock(mu_);
  loads_.emplace_back();
}

LoadLedger::Entry LoadLedger::Take(WorkerId worker) {
  MutexLock lock(mu_);
  QANAT_CHECK(ToIndex(worker) < loads_.size()) << "worker " << ToIndex(worker) << " was never added";
  WorkerLoad& load = loads_[ToIndex(worker)];
  ++load.in_flight;
  load.last_dispatch = ++dispatches_;
  return Entry(this, worker);
}

std::vector<WorkerLoad> LoadLedger::Loads() const {
  MutexLock lock(mu_);
  return loads_;
}

void LoadLedger::Release(WorkerId worker) {
  MutexLock lock(mu_);
  const int32_t left = --loads_[ToIndex(worker)].in_flight;
  QANAT_CHECK(left >= 0) << "worker " << ToIndex(worker) << " ended more calls than it was given";
}

}  // namespace qanat::router
