// When routers hear what a worker holds and how busy it is.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/api/watch.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/hash/net_change.h"
#include "worker/engine/state_listener.h"
#include "worker/service/watch/resident_log.h"

namespace qanat::service {

// What: hears that a subscription may have frames. Threads: the publishing one; must not block, and is not
// called under a lock.
class WatchListener {
 public:
  virtual ~WatchListener() = default;
  virtual void OnFrames() = 0;
};

class WatchSubscription;

// What: gathers what the engine tells and publishes it in its time: a delta a tick or as soon as it is large,
// a load a beat or, when it changed, a tick. Whoever subscribes takes frames as fast as it can. Nothing here
// waits for a subscriber. docs/service.md, "Watch". Owns the log; `clock` outlives it, and what `load` reads
// until the last call of Publish. Threads: the engine's callbacks as they say, Subscribe from any;
// WaitForNews and Publish from one, the publishing thread (WatchThread; a test calls Publish itself). Errors:
// none.
//
// From the engine thread to the publishing one changes go through one NetChange under a lock, and not through
// a ring that could overflow: it sums up to at most twice the pool however long the publishing thread is
// kept away, nothing is lost, and the lock is held for a few hash table operations or a move.
class StatePublisher final : public engine::StateListener {
 public:
  struct Options {
    Duration tick = std::chrono::milliseconds(5);
    Duration beat = std::chrono::milliseconds(100);
    // That many changes do not wait for the tick.
    size_t delta_hashes = 512;
    ResidentLog::Options log;
  };

  // `load` gives all but the residency; it is called by Publish.
  StatePublisher(uint64_t epoch, const Options& options, const Clock& clock, std::function<api::Load()> load);

  void OnResidencyChange(const hash::SetDelta& delta) override EXCLUDES(mu_);
  void OnLoadChange() override EXCLUDES(mu_);

  // Frames from a known state on, or from a snapshot; a load comes with the next tick. `listener` is not kept
  // alive. The subscription ends with its destructor, before the publisher's.
  std::unique_ptr<WatchSubscription> Subscribe(uint64_t known_epoch, uint64_t known_seq,
                                               std::weak_ptr<WatchListener> listener) EXCLUDES(mu_);

  // Blocks until something is due. False after Stop().
  bool WaitForNews() EXCLUDES(mu_);
  // Publishes what is due, and tells the listeners if there was anything.
  void Publish() EXCLUDES(mu_);
  // Wakes WaitForNews for good.
  void Stop() EXCLUDES(mu_);

  int num_subscribers() const EXCLUDES(mu_);
  int64_t num_snapshots() const { return log_.num_snapshots(); }
  void CheckInvariants() const { log_.CheckInvariants(); }

 private:
  friend class WatchSubscription;

  void Unsubscribe(uint64_t id) EXCLUDES(mu_);
  // When Publish has something to do; unset: not before something changes.
  std::optional<Time> DeltaDue() const REQUIRES(mu_);
  std::optional<Time> LoadDue() const REQUIRES(mu_);
  std::vector<std::shared_ptr<WatchListener>> Listeners() const REQUIRES(mu_);

  const Options options_;
  const Clock& clock_;
  const std::function<api::Load()> load_;
  ResidentLog log_;

  mutable Mutex mu_;
  CondVar changed_;
  hash::NetChange pending_ GUARDED_BY(mu_);  // not in the log yet
  bool load_changed_ GUARDED_BY(mu_) = false;
  Time last_delta_ GUARDED_BY(mu_){};
  Time last_load_ GUARDED_BY(mu_){};
  std::map<uint64_t, std::weak_ptr<WatchListener>> listeners_ GUARDED_BY(mu_);  // by subscription
  uint64_t last_subscription_ GUARDED_BY(mu_) = 0;
  bool stopped_ GUARDED_BY(mu_) = false;
};

// What: one subscriber's frames, in order. Threads: one at a time. Errors: none.
class WatchSubscription {
 public:
  ~WatchSubscription() { publisher_.Unsubscribe(id_); }
  WatchSubscription(const WatchSubscription&) = delete;
  WatchSubscription& operator=(const WatchSubscription&) = delete;

  // Empty when there is nothing: OnFrames is called when there may be again.
  std::optional<api::WatchFrame> Next();

 private:
  friend class StatePublisher;
  WatchSubscription(StatePublisher& publisher, uint64_t id, const ResidentLog::Reader& reader)
      : publisher_(publisher), id_(id), reader_(reader) {}

  StatePublisher& publisher_;
  const uint64_t id_;
  ResidentLog::Reader reader_;
  std::optional<api::WatchFrame> held_;  // a failpoint keeps it for the next call
};

// What: publishes until it is destroyed. `publisher` outlives it. Owns its thread.
class WatchThread {
 public:
  explicit WatchThread(StatePublisher& publisher) : publisher_(publisher), thread_([this] { Run(); }) {}
  ~WatchThread() {
    publisher_.Stop();
    thread_.join();
  }
  WatchThread(const WatchThread&) = delete;
  WatchThread& operator=(const WatchThread&) = delete;

 private:
  void Run() {
    while (publisher_.WaitForNews()) publisher_.Publish();
  }

  StatePublisher& publisher_;
  std::thread thread_;  // last: it uses the other
};

}  // namespace qanat::service
