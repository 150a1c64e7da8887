#include "router/cluster/load_ledger.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace qanat::router {

LoadLedger::Entry::Entry(Entry&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)),
      worker_(other.worker_),
      number_(other.number_),
      choices_(other.choices_),
      ended_(other.ended_) {}

LoadLedger::Entry& LoadLedger::Entry::operator=(Entry&& other) noexcept {
  std::swap(ledger_, other.ledger_);
  std::swap(worker_, other.worker_);
  std::swap(number_, other.number_);
  std::swap(choices_, other.choices_);
  std::swap(ended_, other.ended_);
  return *this;
}

LoadLedger::Entry::~Entry() {
  if (ledger_ != nullptr) ledger_->Release(*this);
}

void LoadLedger::Entry::Accept(uint64_t load_version) {
  if (ledger_ != nullptr) ledger_->Accept(worker_, number_, load_version);
}

void LoadLedger::AddWorker() {
  MutexLock lock(mu_);
  accounts_.emplace_back();
}

LoadLedger::Entry LoadLedger::Take(WorkerId worker, int64_t tokens, int32_t choices) {
  MutexLock lock(mu_);
  QANAT_CHECK(ToIndex(worker) < accounts_.size()) << "worker " << ToIndex(worker) << " was never added";
  Account& account = accounts_[ToIndex(worker)];
  const uint64_t number = ++dispatches_;
  ++account.told.in_flight;
  account.told.last_dispatch = number;
  account.unseen.emplace(number, Unseen{.tokens = tokens, .choices = choices});
  account.unseen_tokens += tokens;
  account.unseen_choices += choices;
  return Entry(this, worker, number, choices);
}

void LoadLedger::Update(WorkerId worker, const api::Load& load) {
  MutexLock lock(mu_);
  Account& account = accounts_[ToIndex(worker)];
  if (load.load_version < account.version) return;
  account.version = load.load_version;
  WorkerLoad& told = account.told;
  told.running = load.running;
  told.waiting = load.waiting;
  told.queued_tokens = load.waiting_tokens + load.prefill_tokens;
  told.context_tokens = load.context_tokens;
  told.free_blocks = load.free_blocks;
  told.cached_blocks = load.cached_blocks;
  told.step_model = load.step_model;
  account.ended.erase(std::remove_if(account.ended.begin(), account.ended.end(),
                                     [&](const Ended& ended) { return ended.version <= account.version; }),
                      account.ended.end());
  for (auto it = account.unseen.begin(); it != account.unseen.end();) {
    const auto here = it++;
    const uint64_t accepted = here->second.accepted;
    if (accepted != 0 && accepted <= account.version) See(account, here->first);
  }
}

void LoadLedger::Forget(WorkerId worker) {
  MutexLock lock(mu_);
  Account& account = accounts_[ToIndex(worker)];
  account.version = 0;
  account.ended.clear();
  const WorkerLoad old = std::exchange(account.told, WorkerLoad());
  account.told.in_flight = old.in_flight;
  account.told.last_dispatch = old.last_dispatch;
}

std::vector<WorkerLoad> LoadLedger::Loads() const {
  std::vector<WorkerLoad> loads;
  MutexLock lock(mu_);
  loads.reserve(accounts_.size());
  for (const Account& account : accounts_) {
    WorkerLoad& load = loads.emplace_back(account.told);
    // Whoever has ended ran, as far as we know.
    int32_t ended = 0;
    for (const Ended& one : account.ended) ended += one.choices;
    const int32_t ran = std::min(ended, load.running);
    load.running -= ran;
    load.waiting -= std::min(ended - ran, load.waiting);
    load.waiting += account.unseen_choices;
    load.queued_tokens += account.unseen_tokens;
  }
  return loads;
}

void LoadLedger::Accept(WorkerId worker, uint64_t number, uint64_t load_version) {
  MutexLock lock(mu_);
  Account& account = accounts_[ToIndex(worker)];
  const auto found = account.unseen.find(number);
  if (found == account.unseen.end()) return;
  found->second.accepted = load_version;
  if (load_version != 0 && load_version <= account.version) See(account, number);
}

void LoadLedger::Release(const Entry& entry) {
  MutexLock lock(mu_);
  Account& account = accounts_[ToIndex(entry.worker_)];
  const bool counted = !See(account, entry.number_);
  // Not said in which version: until the next load, whatever that is.
  if (counted && (entry.ended_ == 0 || entry.ended_ > account.version)) {
    account.ended.push_back({entry.ended_, entry.choices_});
  }
  const int32_t left = --account.told.in_flight;
  QANAT_CHECK(left >= 0) << "worker " << ToIndex(entry.worker_) << " ended more calls than it was given";
}

bool LoadLedger::See(Account& account, uint64_t number) {
  const auto found = account.unseen.find(number);
  if (found == account.unseen.end()) return false;
  account.unseen_tokens -= found->second.tokens;
  account.unseen_choices -= found->second.choices;
  account.unseen.erase(found);
  return true;
}

}  // namespace qanat::router
