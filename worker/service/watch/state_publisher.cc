#include "worker/service/watch/state_publisher.h"

#include <algorithm>
#include <utility>

#include "common/base/failpoint.h"

namespace qanat::service {

StatePublisher::StatePublisher(uint64_t epoch, const Options& options, const Clock& clock,
                               std::function<api::Load()> load)
    : options_(options), clock_(clock), load_(std::move(load)), log_(epoch, options.log) {}

void StatePublisher::OnResidencyChange(const hash::SetDelta& delta) {
  bool wake;
  {
    MutexLock lock(mu_);
    const size_t before = pending_.size();
    pending_.Apply(delta);
    // The publishing thread knows of what was due before.
    wake = (before == 0 && !listeners_.empty()) ||
           (before < options_.delta_hashes && pending_.size() >= options_.delta_hashes);
  }
  if (wake) changed_.NotifyOne();
}

void StatePublisher::OnLoadChange() {
  bool wake;
  {
    MutexLock lock(mu_);
    wake = !std::exchange(load_changed_, true) && !listeners_.empty();
  }
  if (wake) changed_.NotifyOne();
}

std::unique_ptr<WatchSubscription> StatePublisher::Subscribe(uint64_t known_epoch, uint64_t known_seq,
                                                             std::weak_ptr<WatchListener> listener) {
  const ResidentLog::Reader reader = log_.Begin(known_epoch, known_seq);
  uint64_t id;
  {
    MutexLock lock(mu_);
    id = ++last_subscription_;
    listeners_.emplace(id, std::move(listener));
    load_changed_ = true;  // to this one
  }
  changed_.NotifyOne();
  return std::unique_ptr<WatchSubscription>(new WatchSubscription(*this, id, reader));
}

void StatePublisher::Unsubscribe(uint64_t id) {
  MutexLock lock(mu_);
  listeners_.erase(id);
}

std::optional<Time> StatePublisher::DeltaDue() const {
  if (pending_.size() >= options_.delta_hashes) return last_delta_;
  // Without subscribers a few changes may wait until they are many: that wakes nobody for nothing.
  if (pending_.empty() || listeners_.empty()) return std::nullopt;
  return last_delta_ + options_.tick;
}

std::optional<Time> StatePublisher::LoadDue() const {
  if (listeners_.empty()) return std::nullopt;
  return last_load_ + (load_changed_ ? options_.tick : options_.beat);
}

bool StatePublisher::WaitForNews() {
  MutexLock lock(mu_);
  while (!stopped_) {
    const std::optional<Time> delta = DeltaDue(), load = LoadDue();
    if (!delta.has_value() && !load.has_value()) {
      changed_.Wait(mu_);
      continue;
    }
    const Time due = std::min(delta.value_or(Time::max()), load.value_or(Time::max()));
    const Time now = clock_.Now();
    if (due <= now) return true;
    changed_.WaitFor(mu_, due - now);
  }
  return false;
}

void StatePublisher::Publish() {
  const Time now = clock_.Now();
  hash::NetChange change;
  bool load_due = false;
  std::vector<std::shared_ptr<WatchListener>> listeners;
  {
    MutexLock lock(mu_);
    if (const auto due = DeltaDue(); due.has_value() && *due <= now) {
      change = std::exchange(pending_, {});
      last_delta_ = now;
    }
    if (const auto due = LoadDue(); due.has_value() && *due <= now) {
      load_due = true;
      load_changed_ = false;  // before it is read: what changes from here on is told again
      last_load_ = now;
    }
    if (!change.empty() || load_due) listeners = Listeners();
  }
  log_.Append(change.Take());
  if (load_due) log_.SetLoad(load_());
  for (const std::shared_ptr<WatchListener>& listener : listeners) listener->OnFrames();
}

std::vector<std::shared_ptr<WatchListener>> StatePublisher::Listeners() const {
  std::vector<std::shared_ptr<WatchListener>> listeners;
  for (const auto& [id, weak] : listeners_) {
    if (auto listener = weak.lock()) listeners.push_back(std::move(listener));
  }
  return listeners;
}

void StatePublisher::Stop() {
  {
    MutexLock lock(mu_);
    stopped_ = true;
  }
  changed_.NotifyAll();
}

int StatePublisher::num_subscribers() const {
  MutexLock lock(mu_);
  return static_cast<int>(listeners_.size());
}

std::optional<api::WatchFrame> WatchSubscription::Next() {
  if (held_.has_value()) return std::exchange(held_, std::nullopt);
  ResidentLog& log = publisher_.log_;
  std::optional<api::WatchFrame> frame = log.Next(reader_);
  if (!frame.has_value()) return frame;
  if (QANAT_FAILPOINT("watch.drop_frame")) return log.Next(reader_);
  if (QANAT_FAILPOINT("watch.repeat_frame")) held_ = frame;
  if (QANAT_FAILPOINT("watch.swap_frames")) {
    if (std::optional<api::WatchFrame> next = log.Next(reader_)) {
      held_ = std::exchange(frame, std::move(next));
    }
  }
  return frame;
}

}  // namespace qanat::service
