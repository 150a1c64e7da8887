#include "tools/qanat/workload.h"

#include <algorithm>
#include <chrono>

#include "common/base/virtual_clock.h"
#include "gtest/gtest.h"
#include "tools/qanat/random_tokens.h"
#include "worker/sim/sim_model_runner.h"

namespace qanat::tools {
namespace {

using std::chrono::milliseconds;

constexpr int32_t kVocabulary = 1000;
// A step takes 10 ms, and a millisecond for each token.
constexpr StepModel kDevice{.fixed_us = 10000, .token_us = 1000};

engine::EngineOptions Options() {
  engine::EngineOptions options;
  options.context_length = 1024;
  options.num_blocks = 256;
  options.inter_token_target = Duration::zero();
  options.speculation = false;
  return options;
}

WorkloadResult RunSimulated(const Workload& workload, const engine::EngineOptions& options,
                            const StepObserver& observer = nullptr) {
  VirtualClock clock;
  sim::SimModelRunner runner({.device = kDevice, .vocabulary = kVocabulary}, clock);
  auto result = RunWorkload(workload, options, runner, clock, observer);
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

TEST(WorkloadTest, AnOpenLoopSubmitsWhenRequestsAreDue) {
  RandomTokens random(1, kVocabulary);
  Workload workload{.name = "open", .requests = {}, .concurrency = 0};
  workload.requests.push_back({.arrival = {}, .prompt = random.Take(20), .max_tokens = 2});
  // While the first step runs.
  workload.requests.push_back({.arrival = milliseconds(5), .prompt = random.Take(10), .max_tokens = 1});
  // When all is idle.
  workload.requests.push_back({.arrival = milliseconds(500), .prompt = random.Take(40), .max_tokens = 3});
  int observed = 0;
  const WorkloadResult result =
      RunSimulated(workload, Options(), [&](const engine::Engine& engine, const engine::StepStats& stats) {
        ++observed;
        EXPECT_EQ(engine.Snapshot().steps, static_cast<uint64_t>(observed));
        EXPECT_GT(stats.shape.tokens, 0);
      });
  const RequestTimes& first = result.requests[0];
  const RequestTimes& second = result.requests[1];
  const RequestTimes& third = result.requests[2];
  EXPECT_EQ(first.first(), milliseconds(30));
  EXPECT_EQ(first.last(), milliseconds(30 + 21));  // beside the second's prompt
  EXPECT_EQ(second.first(), milliseconds(51));
  EXPECT_DOUBLE_EQ(second.ttft_seconds(), 0.046);
  EXPECT_EQ(third.first(), milliseconds(550));
  EXPECT_DOUBLE_EQ(third.tpot_seconds(), 0.011);
  EXPECT_EQ(result.span, milliseconds(572));
  EXPECT_EQ(result.completion_tokens(), 6);
  EXPECT_EQ(result.total_tokens(), 76);
  ASSERT_EQ(result.steps.size(), 5u);
  EXPECT_EQ(observed, 5);
  EXPECT_EQ(result.steps[1], (engine::MeasuredStep{{2, 11, 31, 100}, milliseconds(21)}));
}

TEST(WorkloadTest, ARequestMayEndBeforeWhatItAskedFor) {
  RandomTokens random(3, kVocabulary);
  Workload workload{.name = "stopped", .requests = {}, .concurrency = 0};
  for (const int32_t ends_after : {1, 5, 0}) {
    workload.requests.push_back(
        {.arrival = {}, .prompt = random.Take(4), .max_tokens = 9, .ends_after = ends_after});
  }
  int64_t rows = 0;
  const WorkloadResult result = RunSimulated(
      workload, Options(),
      [&](const engine::Engine&, const engine::StepStats& stats) { rows += stats.shape.sequences; });
  EXPECT_EQ(result.requests[0].drawn.size(), 1u);
  EXPECT_EQ(result.requests[1].drawn.size(), 5u);
  EXPECT_EQ(result.requests[2].drawn.size(), 9u);
  EXPECT_EQ(rows, 1 + 5 + 9) << "nothing is computed behind the end";
}

TEST(WorkloadTest, AClosedLoopKeepsSoManyOpen) {
  RandomTokens random(2, kVocabulary);
  Workload workload{.name = "closed", .requests = {}, .concurrency = 3};
  for (int i = 0; i < 20; ++i) {
    workload.requests.push_back(
        {.arrival = {}, .prompt = random.Take(5), .max_tokens = 1 + static_cast<int>(random.Uniform() * 9)});
  }
  int64_t most = 0;
  const WorkloadResult result =
      RunSimulated(workload, Options(), [&](const engine::Engine&, const engine::StepStats& stats) {
        most = std::max(most, stats.shape.sequences);
      });
  EXPECT_EQ(most, 3);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(result.requests[i].drawn.size(), static_cast<size_t>(workload.requests[i].max_tokens));
    // It came when one of those before it ended.
    const auto ended = [&](const RequestTimes& times) { return times.last() == result.requests[i].arrival; };
    EXPECT_TRUE(i < 3 || std::any_of(result.requests.begin(), result.requests.begin() + i, ended));
  }
}

TEST(WorkloadTest, WhatAFullQueueRefusesIsCountedAsSuch) {
  RandomTokens random(3, kVocabulary);
  Workload workload{.name = "burst", .requests = {}, .concurrency = 0};
  for (int i = 0; i < 5; ++i) {
    workload.requests.push_back({.arrival = {}, .prompt = random.Take(5), .max_tokens = 2});
  }
  engine::EngineOptions options = Options();
  options.queue_requests = 3;
  const WorkloadResult result = RunSimulated(workload, options);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(result.requests[i].refused(), i >= 3);
  EXPECT_EQ(result.total_tokens(), 3 * 7);
}

TEST(WorkloadTest, ARunInVirtualTimeIsTheSameEachTime) {
  RandomTokens random(4, kVocabulary);
  Workload workload{.name = "again", .requests = {}, .concurrency = 0};
  Duration due{};
  for (int i = 0; i < 50; ++i) {
    due += Duration(static_cast<int64_t>(random.Exponential(0.05) * 1e9));
    const int length = std::clamp(static_cast<int>(random.LogNormal(40, 2)), 1, 400);
    workload.requests.push_back({.arrival = due, .prompt = random.Take(length), .max_tokens = 5 + i % 7});
  }
  const WorkloadResult once = RunSimulated(workload, Options());
  const WorkloadResult again = RunSimulated(workload, Options());
  EXPECT_TRUE(once.steps == again.steps);
  EXPECT_EQ(once.span, again.span);
}

}  // namespace
}  // namespace qanat::tools
