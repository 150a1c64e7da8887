// A link to a fake worker, and a journal of what its observer and its callers hear.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/mutex.h"
#include "gtest/gtest.h"
#include "router/link/grpc_link.h"
#include "tests/fakes/fake_worker_server.h"

namespace qanat::router {

// What observer and sinks heard, in order, and a way to wait for it.
class Journal {
 public:
  void Add(const std::string& entry) {
    MutexLock lock(mu_);
    entries_.push_back(entry);
    changed_.NotifyAll();
  }
  // Waits for the next entry that begins so; false after 10 seconds.
  bool Await(const std::string& beginning) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    MutexLock lock(mu_);
    for (;;) {
      while (read_ < entries_.size()) {
        if (entries_[read_++].compare(0, beginning.size(), beginning) == 0) return true;
      }
      const auto left = until - std::chrono::steady_clock::now();
      if (left <= Duration::zero()) return false;
      changed_.WaitFor(mu_, left);
    }
  }
  std::vector<std::string> entries() const {
    MutexLock lock(mu_);
    return entries_;
  }

 private:
  mutable Mutex mu_;
  CondVar changed_;
  std::vector<std::string> entries_ GUARDED_BY(mu_);
  size_t read_ GUARDED_BY(mu_) = 0;
};

class RecordingObserver final : public LinkObserver {
 public:
  explicit RecordingObserver(Journal& journal) : journal_(journal) {}

  absl::Status OnReady(ReadyWorker worker) override {
    absl::Status answer;
    {
      MutexLock lock(mu_);
      worker_ = std::move(worker);
      answer = answer_;
    }
    journal_.Add("ready");
    return answer;
  }
  void OnDown(const absl::Status& why) override { journal_.Add("down " + std::string(why.message())); }
  WatchPosition OnWatchBegin() override {
    MutexLock lock(mu_);
    return position_;
  }
  // This observer knows epoch 1 only, and takes frames of an odd seq for wrong.
  WatchVerdict OnFrame(const api::WatchFrame& frame) override {
    journal_.Add("frame " + std::to_string(frame.epoch) + "/" + std::to_string(frame.seq));
    if (frame.epoch != 1) return WatchVerdict::kReconnect;
    return frame.seq % 2 == 0 ? WatchVerdict::kContinue : WatchVerdict::kResubscribe;
  }
  void OnWatchEnd(const absl::Status& why) override {
    journal_.Add("watch end " + absl::StatusCodeToString(why.code()));
  }
  void OnSign() override { ++signs_; }

  void AnswerWith(const absl::Status& answer) {
    MutexLock lock(mu_);
    answer_ = answer;
  }
  void HoldFrom(const WatchPosition& position) {
    MutexLock lock(mu_);
    position_ = position;
  }
  ReadyWorker worker() const {
    MutexLock lock(mu_);
    return worker_;
  }
  int signs() const { return signs_; }

 private:
  Journal& journal_;
  std::atomic<int> signs_ = 0;
  mutable Mutex mu_;
  ReadyWorker worker_ GUARDED_BY(mu_);
  absl::Status answer_ GUARDED_BY(mu_);
  WatchPosition position_ GUARDED_BY(mu_);
};

class RecordingCall final : public CallSink {
 public:
  RecordingCall(Journal& journal, std::string name) : journal_(journal), name_(std::move(name)) {}
  void OnAccepted(uint64_t load_version) override {
    journal_.Add(name_ + " accepted " + std::to_string(load_version));
  }
  void OnResponse(v1::GenerateResponse response) override {
    journal_.Add(name_ + " said " + response.text());
  }
  void OnEnd(const absl::Status& status, uint64_t load_version) override {
    journal_.Add(name_ + " end " + absl::StatusCodeToString(status.code()) + " " + ReasonOf(status) +
                 (load_version == 0 ? "" : "v" + std::to_string(load_version)));
  }
  void OnRedirect(Redirect why, const absl::Status& status) override {
    journal_.Add(name_ + (why == Redirect::kDraining ? " draining " : " full ") + ReasonOf(status));
  }

 private:
  Journal& journal_;
  const std::string name_;
};

class GrpcLinkFixture : public testing::Test {
 protected:
  void StartWorker(const fakes::FakeWorkerServer::Options& options = {}) {
    worker_ = std::make_unique<fakes::FakeWorkerServer>(options);
    address_ = worker_->address();
  }
  void OpenLink() {
    link_ = std::make_unique<GrpcLink>(address_,
                                       GrpcLink::Options{.clock = clock_,
                                                         .tokenizers = store_,
                                                         .seed = 1,
                                                         .router_id = 0xab,
                                                         .first_delay = std::chrono::milliseconds(5),
                                                         .longest_delay = std::chrono::milliseconds(50)});
    link_->Open(observer_);
  }
  void OpenReadyLink(const fakes::FakeWorkerServer::Options& options = {}) {
    StartWorker(options);
    OpenLink();
    ASSERT_TRUE(journal_.Await("ready"));
  }
  static WorkerCall Prompt(const std::string& text) {
    WorkerCall call;
    for (const char c : text) call.request.mutable_token_ids()->add_ids(5 + c);
    return call;
  }
  std::optional<CallId> Start(const std::string& name, const WorkerCall& call) {
    return link_->Start(call, std::make_shared<RecordingCall>(journal_, name));
  }

  // A call "a" of a new link, which the worker has and does not end.
  CallId StartHeldCall() {
    OpenReadyLink({.mode = fakes::FakeWorkerServer::Mode::kHold});
    const std::optional<CallId> id = Start("a", Prompt("x"));
    EXPECT_TRUE(id.has_value());
    EXPECT_EQ(worker_->NextStart().call_id(), id);
    return id.value_or(0);
  }

  RealClock clock_;
  TokenizerStore store_;
  Journal journal_;
  RecordingObserver observer_{journal_};
  std::string address_;
  std::unique_ptr<fakes::FakeWorkerServer> worker_;
  std::unique_ptr<GrpcLink> link_;
};

}  // namespace qanat::router
