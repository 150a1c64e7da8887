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

}  // namespace qanat::engine
