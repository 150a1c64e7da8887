// A worker that a test plays.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/error.h"
#include "common/base/mutex.h"
#include "common/text/tokenizer.h"
#include "router/link/worker_link.h"
#include "tests/fakes/byte_level_vocabulary.h"

namespace qanat::fakes {

// A worker as it would present itself: a model of 261 tokens (bytes), 64 blocks of 16.
inline router::ReadyWorker MakeReadyWorker(const hash::HashKey& key = hash::kPublicKey,
                                           const std::string& fingerprint = "f00d") {
  router::ReadyWorker worker;
  worker.tokenizer = *text::Tokenizer::Create(ByteLevelVocabulary({}));
  worker.info.model.id = "tiny";
  worker.info.model.context_length = 256;
  worker.info.model.vocab_size = worker.tokenizer->size();
  worker.info.model.block_size = 16;
  worker.info.model.pool_tokens = 64 * 16;
  worker.info.model_fingerprint = fingerprint;
  worker.info.numerics_id = "exact";
  worker.info.hash_check = api::HashCheck(key, fingerprint, 16);
  worker.info.epoch = 1;
  worker.info.max_requests = 8;
  return worker;
}

// What: records what the router starts and cancels; the test says what becomes of it. Owned by a Cluster,
// kept by the test as a plain pointer. Threads: any.
class FakeWorkerLink final : public router::WorkerLink {
 public:
  struct Call {
    router::WorkerCall call;
    bool cancelled = false;
    bool paused = false;
  };

  ~FakeWorkerLink() override { Close(); }

  void Open(router::LinkObserver& observer) override { observer_ = &observer; }
  void Close() override { Lose(); }

  std::optional<router::CallId> Start(const router::WorkerCall& call,
                                      std::shared_ptr<router::CallSink> sink) override {
    router::CallId id = 0;
    {
      MutexLock lock(mu_);
      if (!connected_) return std::nullopt;
      id = ++last_id_;
      calls_[id] = {Call{.call = call}, std::move(sink)};
    }
    if (meanwhile_) std::thread(meanwhile_, id).join();
    return id;
  }
  void Cancel(router::CallId id) override {
    MutexLock lock(mu_);
    if (const auto found = calls_.find(id); found != calls_.end()) found->second.call.cancelled = true;
  }

  void SetPaused(router::CallId id, bool paused) override {
    MutexLock lock(mu_);
    if (const auto found = calls_.find(id); found != calls_.end()) found->second.call.paused = paused;
  }

  // What the observer said to the worker.
  absl::Status BecomeReady(router::ReadyWorker worker = MakeReadyWorker()) {
    {
      MutexLock lock(mu_);
      connected_ = true;
    }
    return observer_->OnReady(std::move(worker));
  }
  // As a killed process does: the state first, then its calls.
  void Break(const absl::Status& why = absl::UnavailableError("connection reset")) {
    {
      MutexLock lock(mu_);
      connected_ = false;
    }
    observer_->OnDown(why);
    Lose();
  }
  // A connection that is gone before anyone noticed.
  void Disconnect() {
    MutexLock lock(mu_);
    connected_ = false;
  }

  // What happens on another thread after a call has reached the worker and before Start returns. To be set
  // while nothing starts.
  void WhileStarting(std::function<void(router::CallId)> meanwhile) { meanwhile_ = std::move(meanwhile); }

  // The open calls, oldest first.
  std::vector<router::CallId> Ids() const {
    MutexLock lock(mu_);
    std::vector<router::CallId> ids;
    for (const auto& [id, open] : calls_) ids.push_back(id);
    return ids;
  }
  Call At(router::CallId id) const {
    MutexLock lock(mu_);
    return calls_.at(id).call;
  }

  // A Watch that begins (again), a frame of it, its end.
  router::WatchPosition BeginWatch() { return observer_->OnWatchBegin(); }
  router::WatchVerdict Tell(const api::WatchFrame& frame) { return observer_->OnFrame(frame); }
  void EndWatch(const absl::Status& why = absl::UnavailableError("watch cut")) { observer_->OnWatchEnd(why); }
  // A message of the session, whatever it says.
  void GiveSign() { observer_->OnSign(); }

  void Accept(router::CallId id, uint64_t load_version = 0) { Sink(id)->OnAccepted(load_version); }
  void Respond(router::CallId id, v1::GenerateResponse response) {
    Sink(id)->OnResponse(std::move(response));
  }
  void End(router::CallId id, const absl::Status& status, uint64_t load_version = 0) {
    Take(id)->OnEnd(status, load_version);
  }
  void Redirect(router::CallId id, router::Redirect why, const absl::Status& status) {
    Take(id)->OnRedirect(why, status);
  }

 private:
  struct OpenCall {
    Call call;
    std::shared_ptr<router::CallSink> sink;
  };

  std::shared_ptr<router::CallSink> Sink(router::CallId id) const {
    MutexLock lock(mu_);
    return calls_.at(id).sink;
  }
  std::shared_ptr<router::CallSink> Take(router::CallId id) {
    MutexLock lock(mu_);
    const auto found = calls_.find(id);
    std::shared_ptr<router::CallSink> sink = std::move(found->second.sink);
    calls_.erase(found);
    return sink;
  }
  void Lose() {
    std::map<router::CallId, OpenCall> lost;
    {
      MutexLock lock(mu_);
      lost.swap(calls_);
    }
    for (auto& [id, open] : lost) {
      open.sink->OnEnd(WithReason(absl::UnavailableError("lost"), router::kWorkerLost), 0);
    }
  }

  router::LinkObserver* observer_ = nullptr;
  std::function<void(router::CallId)> meanwhile_;
  mutable Mutex mu_;
  bool connected_ GUARDED_BY(mu_) = false;
  router::CallId last_id_ GUARDED_BY(mu_) = 0;
  std::map<router::CallId, OpenCall> calls_ GUARDED_BY(mu_);
};

}  // namespace qanat::fakes
