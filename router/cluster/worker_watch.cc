#include "router/cluster/worker_watch.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace qanat::router {
namespace {

// Calls that end while the worker tells nothing; beyond them the oldest lose their credit.
constexpr size_t kMostKept = 4096;

}  // namespace

void WorkerWatch::OnReady(uint64_t epoch, int64_t capacity) {
  MutexLock lock(mu_);
  down_since_.reset();
  heard_.reset();
  DropCredits();
  replica_.Meet(epoch, capacity);
}

void WorkerWatch::OnDown() {
  MutexLock lock(mu_);
  if (!down_since_.has_value()) down_since_ = clock_.Now();
  heard_.reset();
  DropCredits();
}

WatchPosition WorkerWatch::OnBegin() {
  MutexLock lock(mu_);
  watching_ = true;
  return replica_.Begin();
}

WatchVerdict WorkerWatch::OnFrame(const api::WatchFrame& frame) {
  MutexLock lock(mu_);
  const WatchVerdict verdict = replica_.Apply(frame);
  if (verdict != WatchVerdict::kContinue) {
    // Nothing is due until the next one tells its first load.
    heard_.reset();
    return verdict;
  }
  if (const auto* load = std::get_if<api::Load>(&frame.body)) {
    heard_ = clock_.Now();
    step_age_ = load->step_age;
    if (replica_.in_step()) ReleaseCredits(load->load_version);
  } else if (heard_.has_value()) {
    heard_ = clock_.Now();
  }
  return verdict;
}

void WorkerWatch::OnEnd(bool for_good) {
  MutexLock lock(mu_);
  heard_.reset();
  DropCredits();
  replica_.End();
  if (for_good) replica_.Forget();
}

void WorkerWatch::OnSign() {
  MutexLock lock(mu_);
  if (heard_.has_value()) heard_ = clock_.Now();
}

void WorkerWatch::KeepCredit(PendingCredits::Guard credit, uint64_t load_version) {
  MutexLock lock(mu_);
  if (!watching_ || load_version == 0) return;
  kept_.push_back({load_version, load_version <= load_version_, std::move(credit)});
  if (kept_.size() > kMostKept) kept_.pop_front();
}

void WorkerWatch::ReleaseCredits(uint64_t load_version) {
  load_version_ = std::max(load_version_, load_version);
  const auto last = std::remove_if(kept_.begin(), kept_.end(), [](const Kept& kept) { return kept.told; });
  kept_.erase(last, kept_.end());
  for (Kept& kept : kept_) kept.told = kept.load_version <= load_version_;
}

void WorkerWatch::DropCredits() {
  watching_ = false;
  load_version_ = 0;
  kept_.clear();
}

void WorkerWatch::Expire() {
  MutexLock lock(mu_);
  if (down_since_.has_value() && clock_.Now() - *down_since_ >= kKeepBlocks) replica_.Forget();
}

Doubt WorkerWatch::doubt() const {
  MutexLock lock(mu_);
  if (!heard_.has_value()) return Doubt::kNone;
  if (clock_.Now() - *heard_ >= kSilence) return Doubt::kSilent;
  return step_age_ >= kLongestStep ? Doubt::kHung : Doubt::kNone;
}

std::optional<HolderId> WorkerWatch::holder() const {
  MutexLock lock(mu_);
  return replica_.holder();
}

void WorkerWatch::CloseRetired() {
  MutexLock lock(mu_);
  replica_.CloseRetired();
}

WorkerWatch::Status WorkerWatch::status() const {
  MutexLock lock(mu_);
  Status status;
  status.index_blocks = replica_.blocks();
  status.in_step = replica_.in_step();
  for (const ResyncCause cause : kResyncCauses) {
    status.resyncs[static_cast<size_t>(cause)] = replica_.resyncs(cause);
  }
  return status;
}

}  // namespace qanat::router
