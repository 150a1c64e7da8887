// A24: a burst fills a bounded queue; the rest is refused at once, with a hint, and costs nothing.
#include <chrono>

#include "common/base/error.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

EngineOptions CappedOptions() {
  EngineOptions options = SmallOptions();
  options.queue_requests = 64;
  options.queue_tokens = 100000;
  options.max_seqs = 4;
  return options;
}

TEST(A24UnboundedQueueTest, OfTwoThousandAtOnceSixtyFourAreAcceptedAndFinish) {
  EngineRig rig(CappedOptions());
  std::vector<Request> accepted;
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    const Request request = EngineRig::MakeRequest(EngineRig::Prompt(10, i), 5);
    const absl::Status status = rig.engine->Submit(request).status();
    if (status.ok()) {
      accepted.push_back(request);
      continue;
    }
    ++refused;
    ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    ASSERT_EQ(ReasonOf(status), "QUEUE_FULL");
    ASSERT_TRUE(RetryAfterOf(status).has_value());
  }
  EXPECT_EQ(accepted.size(), 64u);
  EXPECT_EQ(refused, 2000 - 64);
  EXPECT_EQ(rig.engine->Snapshot().waiting, 64);
  rig.RunAll();
  for (const Request& request : accepted) {
    EXPECT_EQ(EngineRig::SinkOf(request).tokens(), rig.Answer(request));
  }
}

TEST(A24UnboundedQueueTest, ARefusalWaitsForNoStep) {
  EngineRig rig(CappedOptions());
  for (int i = 0; i < 64; ++i) rig.Submit(EngineRig::MakeRequest(EngineRig::Prompt(10, i), 5));
  int accepted = 0;
  int refused = 0;
  // In the middle of a step, on the engine's own thread: whoever waited for the step would wait for ever.
  rig.runner.set_on_launch([&](const ModelBatch&) {
    if (refused > 0) return;
    while (rig.engine->Submit(EngineRig::MakeRequest(EngineRig::Prompt(10), 5)).ok()) ++accepted;
    ++refused;
    EXPECT_EQ(rig.engine->Snapshot().waiting, 64);
  });
  rig.Step();
  EXPECT_EQ(accepted, 4) << "as many as were started";
  EXPECT_EQ(refused, 1);
}

TEST(A24UnboundedQueueTest, ExpiredOnesAreNeverPrefilled) {
  EngineRig rig(CappedOptions());
  std::vector<Request> requests;
  for (int i = 0; i < 64; ++i) {
    Request request = EngineRig::MakeRequest(EngineRig::Prompt(10, 100 * i), 5);
    request.deadline = rig.clock.Now() + std::chrono::milliseconds(8);
    rig.Submit(request);
    requests.push_back(std::move(request));
  }
  rig.RunAll();
  int64_t started = 0;
  for (const Request& request : requests) {
    const Outcome outcome = EngineRig::SinkOf(request).outcome();
    if (outcome.reason == EndReason::kDeadline && outcome.completion_tokens == 0) {
      EXPECT_EQ(outcome.prefill, Duration{});
    } else {
      ++started;
    }
  }
  EXPECT_EQ(started, 5)
      << "four at a time, five steps each: of the others none would be done in time, and the last "
         "of them may try since nobody waits behind it";
  int64_t prefilled = 0;
  for (const StepStats& stats : rig.metrics.steps) prefilled += stats.prefill_tokens;
  EXPECT_EQ(prefilled, started * 10);
}

}  // namespace
}  // namespace qanat::engine
