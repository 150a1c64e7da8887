// The small language of the engine's tests: an engine over the fake model, requests, and what became of them.
#pragma once

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_model_runner.h"
#include "tests/fakes/recording_listener.h"
#include "tests/fakes/recording_sink.h"
#include "worker/engine/engine.h"

namespace qanat::engine {

// Metrics that keep what they are told.
class RecordingMetrics final : public EngineMetrics {
 public:
  void OnStep(const StepStats& stats) override { steps.push_back(stats); }
  void OnInterToken(Duration gap) override { gaps.push_back(gap); }
  void OnEnd(const Outcome& outcome, Duration total) override { ends.emplace_back(outcome, total); }

  std::vector<StepStats> steps;
  std::vector<Duration> gaps;
  std::vector<std::pair<Outcome, Duration>> ends;
};

inline EngineOptions SmallOptions() {
  EngineOptions options;
  options.context_length = 256;
  options.block_size = 4;
  options.num_blocks = 64;
  options.max_batch_tokens = 64;
  options.max_seqs = 16;
  options.chunk_tokens = 32;
  options.queue_requests = 64;
  options.queue_tokens = 4096;
  return options;
}

// An engine that a test steps by hand; every step is checked.
class EngineRig {
 public:
  explicit EngineRig(const EngineOptions& options, int depth = 1, int32_t vocabulary = 1000)
      : options(options),
        vocabulary(vocabulary),
        runner(options.num_blocks + options.padding_blocks(), options.block_size, vocabulary, depth),
        hasher(hash::kPublicKey, "model", options.block_size),
        engine(std::make_unique<Engine>(options, hasher, runner, clock, metrics, &listener)) {}

  // A request with a sink of its own.
  static Request MakeRequest(std::vector<TokenId> prompt, int32_t max_tokens) {
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.sink = std::make_shared<fakes::RecordingSink>();
    return request;
  }
  static fakes::RecordingSink& SinkOf(const Request& request) {
    return static_cast<fakes::RecordingSink&>(*request.sink);
  }
  // `count` tokens from `first` on.
  static std::vector<TokenId> Prompt(int count, TokenId first = 1) {
    std::vector<TokenId> tokens(count);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
  }

  SequenceId Submit(const Request& request) {
    const absl::StatusOr<Accepted> accepted = engine->Submit(request);
    EXPECT_TRUE(accepted.ok()) << accepted.status();
    return accepted.ok() ? accepted->id : SequenceId{};
  }
  bool Step() {
    const bool worked = engine->Step();
    engine->CheckInvariants();
    clock.Advance(std::chrono::milliseconds(1));
    return worked;
  }
  // Until nothing is left to do.
  void RunAll() {
    while (Step()) {
    }
  }
  std::vector<TokenId> Answer(const Request& request) const {
    return fakes::FakeModelRunner::Answer(request, options.context_length, vocabulary);
  }

  const EngineOptions options;
  const int32_t vocabulary;
  fakes::FakeClock clock;
  RecordingMetrics metrics;
  fakes::RecordingListener listener;
  fakes::FakeModelRunner runner;
  hash::BlockHasher hasher;
  std::unique_ptr<Engine> engine;
};

// One rig, with small options unless a test starts another.
class EngineFixture : public testing::Test {
 protected:
  void Start(const EngineOptions& options) { rig_ = std::make_unique<EngineRig>(options); }
  void StartWithOneSeat() {
    EngineOptions options = SmallOptions();
    options.max_seqs = 1;
    Start(options);
  }
  EngineRig& rig() {
    if (rig_ == nullptr) Start(SmallOptions());
    return *rig_;
  }
  EngineSnapshot Snapshot() { return rig().engine->Snapshot(); }
  static Request MakeRequest(int prompt, int max_tokens, TokenId first = 1) {
    return EngineRig::MakeRequest(EngineRig::Prompt(prompt, first), max_tokens);
  }
  static fakes::RecordingSink& SinkOf(const Request& request) { return EngineRig::SinkOf(request); }
  void Steps(int count) {
    for (int i = 0; i < count; ++i) rig().Step();
  }
  void ExpectIdleAndClean() {
    const EngineSnapshot snapshot = Snapshot();
    EXPECT_EQ(snapshot.running, 0);
    EXPECT_EQ(snapshot.waiting, 0);
    EXPECT_EQ(snapshot.waiting_tokens, 0);
    EXPECT_EQ(snapshot.referenced_blocks, 0);
    EXPECT_EQ(snapshot.live_tokens, 0);
    EXPECT_EQ(snapshot.free_blocks + snapshot.cached_blocks, snapshot.total_blocks);
  }

  // A pool for one and a half of the requests that follow.
  void StartWithSmallPool() {
    EngineOptions options = SmallOptions();
    options.num_blocks = 10;
    options.context_length = 40;
    Start(options);
  }
  // Steps until `second` is preempted, whose id it returns. REQUIRES: both are of 8 + 30 tokens.
  SequenceId Preempt(const Request& first, const Request& second) {
    rig().Submit(first);
    const SequenceId id = rig().Submit(second);
    while (Snapshot().waiting == 2) rig().Step();
    EXPECT_EQ(Snapshot().running, 2);
    while (Snapshot().running == 2) rig().Step();
    EXPECT_EQ(Snapshot().waiting, 1);
    EXPECT_GE(Snapshot().waiting_tokens, 1) << "one is computed at least, others may be cached";
    EXPECT_FALSE(SinkOf(second).ended());
    return id;
  }

 private:
  std::unique_ptr<EngineRig> rig_;
};

}  // namespace qanat::engine
