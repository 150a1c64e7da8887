// A cluster of played workers, and callers that record.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "gtest/gtest.h"
#include "router/cluster/cluster.h"
#include "router/forward/forwarder.h"
#include "router/routing/least_loaded.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_worker_link.h"

namespace qanat::router {

// A caller. Threads: any.
class RecordingStreamSink final : public StreamSink {
 public:
  void OnResponse(v1::GenerateResponse response, int32_t tokens) override {
    MutexLock lock(mu_);
    responses_.push_back(std::move(response));
    tokens_ += tokens;
  }
  void OnEnd(const absl::Status& status) override {
    MutexLock lock(mu_);
    ends_.push_back(status);
  }

  std::vector<v1::GenerateResponse> responses() const {
    MutexLock lock(mu_);
    return responses_;
  }
  int tokens() const {
    MutexLock lock(mu_);
    return tokens_;
  }
  std::vector<absl::Status> ends() const {
    MutexLock lock(mu_);
    return ends_;
  }

 private:
  mutable Mutex mu_;
  std::vector<v1::GenerateResponse> responses_ GUARDED_BY(mu_);
  int tokens_ GUARDED_BY(mu_) = 0;
  std::vector<absl::Status> ends_ GUARDED_BY(mu_);
};

class RecordingForwardMetrics final : public ForwardMetrics {
 public:
  void OnDecision(std::string_view outcome, Duration took) override {
    MutexLock lock(mu_);
    outcomes_.emplace_back(outcome);
  }
  void OnDispatch(const std::string& worker) override {
    MutexLock lock(mu_);
    dispatches_.push_back(worker);
  }
  void OnRedirect(std::string_view reason) override {
    MutexLock lock(mu_);
    redirects_.emplace_back(reason);
  }
  void OnFirstToken(Duration late) override {
    MutexLock lock(mu_);
    late_.push_back(late);
  }
  void OnRelayed(int32_t tokens) override {
    MutexLock lock(mu_);
    relayed_ += tokens;
  }
  void OnHits(const std::string& worker, const PromptHits& hits) override {
    MutexLock lock(mu_);
    hits_.emplace_back(worker, hits);
  }

  std::vector<std::string> outcomes() const {
    MutexLock lock(mu_);
    return outcomes_;
  }
  std::vector<std::string> dispatches() const {
    MutexLock lock(mu_);
    return dispatches_;
  }
  std::vector<std::string> redirects() const {
    MutexLock lock(mu_);
    return redirects_;
  }
  std::vector<Duration> late() const {
    MutexLock lock(mu_);
    return late_;
  }
  std::vector<std::pair<std::string, PromptHits>> hits() const {
    MutexLock lock(mu_);
    return hits_;
  }
  int relayed() const {
    MutexLock lock(mu_);
    return relayed_;
  }

 private:
  mutable Mutex mu_;
  std::vector<std::string> outcomes_ GUARDED_BY(mu_);
  std::vector<std::string> redirects_ GUARDED_BY(mu_);
  std::vector<std::string> dispatches_ GUARDED_BY(mu_);
  std::vector<Duration> late_ GUARDED_BY(mu_);
  std::vector<std::pair<std::string, PromptHits>> hits_ GUARDED_BY(mu_);
  int relayed_ GUARDED_BY(mu_) = 0;
};

class ForwardFixture : public testing::Test {
 protected:
  ~ForwardFixture() override { cluster_.Close(); }

  // Adds workers that are ready.
  void AddWorkers(int count) {
    for (int i = 0; i < count; ++i) {
      auto link = std::make_unique<fakes::FakeWorkerLink>();
      links_.push_back(link.get());
      cluster_.Add("w" + std::to_string(links_.size() - 1), std::move(link));
      ASSERT_TRUE(links_.back()->BecomeReady(ready_).ok());
    }
  }

  ForwardRequest MakeRequest() const {
    ForwardRequest request;
    for (int id : {7, 8, 9}) request.request.mutable_token_ids()->add_ids(id);
    request.request.set_request_id("mine");
    request.request.mutable_sampling()->set_seed(5);
    request.request.mutable_stopping()->set_max_tokens(10);
    request.model = cluster_.Snapshot().worker(WorkerId{0}).model;
    return request;
  }

  int InFlight(size_t worker) const { return cluster_.Snapshot().loads[worker].in_flight; }

  // Tokens `first` and on, one letter each.
  static v1::GenerateResponse News(int first, int tokens) {
    v1::GenerateResponse response;
    response.set_first_token(first);
    for (int i = 0; i < tokens; ++i) response.add_token_ids(100 + first + i);
    response.set_text(std::string(tokens, 'x'));
    return response;
  }

  ReadyWorker ready_ = fakes::MakeReadyWorker();
  fakes::FakeClock clock_;
  Cluster cluster_{hash::kPublicKey, clock_};
  LeastLoaded policy_;
  RecordingForwardMetrics metrics_;
  Forwarder forwarder_{cluster_, policy_, clock_, metrics_, hash::kPublicKey};
  std::vector<fakes::FakeWorkerLink*> links_;
};

// One caller, whom others may be beside.
class CallerFixture : public ForwardFixture {
 protected:
  void Start(ForwardRequest request) { stream_ = forwarder_.Start(std::move(request), sink_); }
  void StartAmong(int workers) {
    AddWorkers(workers);
    Start(MakeRequest());
  }
  // Another caller's.
  void StartAnother(ForwardRequest request) {
    forwarder_.Start(std::move(request), std::make_shared<RecordingStreamSink>());
  }
  void StartAnother() { StartAnother(MakeRequest()); }
  // The only open call of a worker.
  CallId Only(size_t worker) const {
    const std::vector<CallId> ids = links_[worker]->Ids();
    EXPECT_EQ(ids.size(), 1u) << "worker " << worker;
    return ids.empty() ? 0 : ids.front();
  }

  const std::shared_ptr<RecordingStreamSink> sink_ = std::make_shared<RecordingStreamSink>();
  std::shared_ptr<ForwardedStream> stream_;
};

}  // namespace qanat::router
