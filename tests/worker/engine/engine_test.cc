// The engine through its face: answers, preemption, faults, the door, and the engine thread.
#include "worker/engine/engine.h"

#include <thread>
#include <vector>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

using ::testing::ElementsAre;

using EngineTest = EngineFixture;

TEST_F(EngineTest, AnswersARequest) {
  const Request request = MakeRequest(10, 7);
  rig().Submit(request);
  rig().RunAll();
  ASSERT_TRUE(SinkOf(request).ended());
  EXPECT_EQ(SinkOf(request).tokens(), rig().Answer(request));
  const Outcome outcome = SinkOf(request).outcome();
  EXPECT_EQ(outcome.reason, EndReason::kLength);
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.prompt_tokens, 10);
  EXPECT_EQ(outcome.completion_tokens, 7);
  ExpectIdleAndClean();
}

TEST_F(EngineTest, AnEndTokenIsDeliveredCountedAndLast) {
  Request request = MakeRequest(10, 20);
  request.end_tokens = {rig().Answer(request)[4]};
  rig().Submit(request);
  rig().RunAll();
  const Outcome outcome = SinkOf(request).outcome();
  EXPECT_EQ(outcome.reason, EndReason::kStop);
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.completion_tokens, 5);
  EXPECT_EQ(SinkOf(request).tokens().back(), request.end_tokens[0]);
}

TEST_F(EngineTest, AnIdleEngineHasNothingToDo) {
  EXPECT_FALSE(rig().Step());
  EXPECT_EQ(Snapshot().steps, 0u);
}

TEST_F(EngineTest, DrawsAreNamedBySeedAndPositionInTheOutput) {
  std::vector<uint32_t> positions;
  rig().runner.set_on_launch([&](const ModelBatch& batch) {
    EXPECT_EQ(batch.sequences[0].draw.seed, 77u);
    if (batch.sequences[0].sample) positions.push_back(batch.sequences[0].draw.position);
  });
  Request request = MakeRequest(40, 3);
  request.seed = 77;
  rig().Submit(request);
  rig().RunAll();
  EXPECT_THAT(positions, ElementsAre(0, 1, 2));
}

// Preemption.

TEST_F(EngineTest, WhatWasPreemptedGoesOnWithoutAGapOrARepeat) {
  StartWithSmallPool();
  const Request first = MakeRequest(8, 30, 1);
  const Request second = MakeRequest(8, 30, 500);
  Preempt(first, second);
  rig().RunAll();
  EXPECT_EQ(SinkOf(first).tokens(), rig().Answer(first));
  EXPECT_EQ(SinkOf(second).tokens(), rig().Answer(second));
  const Outcome outcome = SinkOf(second).outcome();
  EXPECT_GE(outcome.preemptions, 1);
  EXPECT_GT(outcome.recomputed_tokens, 0);
  EXPECT_EQ(outcome.completion_tokens, 30);
  EXPECT_EQ(SinkOf(first).outcome().preemptions, 0) << "the first in order never gives way";
}

// Faults.

TEST_F(EngineTest, AFailedRowEndsItsOwnRequestOnly) {
  const Request good = MakeRequest(10, 20, 1);
  const Request bad = MakeRequest(10, 20, 300);
  rig().Submit(good);
  const SequenceId id = rig().Submit(bad);
  Steps(4);
  rig().runner.FailNextRowOf(id);
  rig().Step();
  ASSERT_TRUE(SinkOf(bad).ended());
  EXPECT_EQ(SinkOf(bad).outcome().reason, EndReason::kError);
  EXPECT_EQ(SinkOf(bad).outcome().status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(SinkOf(bad).outcome().completion_tokens, 4);
  EXPECT_EQ(rig().metrics.steps.back().failed_rows, 1);
  rig().RunAll();
  EXPECT_EQ(SinkOf(good).tokens(), rig().Answer(good));
  ExpectIdleAndClean();
}

TEST_F(EngineTest, TheBlocksOfAFailedRowAreNotPublished) {
  const Request bad = MakeRequest(30, 20);
  rig().runner.FailNextRowOf(rig().Submit(bad));
  rig().Step();
  ASSERT_TRUE(SinkOf(bad).ended());
  EXPECT_EQ(Snapshot().cached_blocks, 0);
  const Request again = MakeRequest(30, 20);
  rig().Submit(again);
  rig().RunAll();
  EXPECT_EQ(SinkOf(again).outcome().cached_tokens, 0);
  EXPECT_EQ(SinkOf(again).tokens(), rig().Answer(again));
}

// The door.

TEST_F(EngineTest, TheQueueIsBoundedWithoutAStepAndOpensWhenRequestsStart) {
  EngineOptions options = SmallOptions();
  options.queue_requests = 3;
  options.max_seqs = 2;
  Start(options);
  for (int i = 0; i < 3; ++i) rig().Submit(MakeRequest(4, 50));
  EXPECT_EQ(ReasonOf(rig().engine->Submit(MakeRequest(4, 5)).status()), "QUEUE_FULL");
  rig().Step();
  EXPECT_EQ(Snapshot().running, 2);
  rig().Submit(MakeRequest(4, 5));
  rig().Submit(MakeRequest(4, 5));
  EXPECT_EQ(ReasonOf(rig().engine->Submit(MakeRequest(4, 5)).status()), "QUEUE_FULL");
}

TEST_F(EngineTest, DrainingRefusesTheNewAndFinishesTheAccepted) {
  const Request running = MakeRequest(10, 7, 1);
  const Request waiting = MakeRequest(10, 7, 300);
  rig().Submit(running);
  rig().Step();
  rig().Submit(waiting);
  rig().engine->Drain();
  EXPECT_TRUE(Snapshot().draining);
  EXPECT_EQ(ReasonOf(rig().engine->Submit(MakeRequest(1, 1)).status()), "DRAINING");
  rig().RunAll();
  EXPECT_EQ(SinkOf(running).tokens(), rig().Answer(running));
  EXPECT_EQ(SinkOf(waiting).tokens(), rig().Answer(waiting));
}

TEST_F(EngineTest, WhatIsLeftEndsAsCancelledWithTheEngine) {
  const Request running = MakeRequest(10, 7, 1);
  const Request in_inbox = MakeRequest(10, 7, 300);
  rig().Submit(running);
  rig().Step();
  rig().Submit(in_inbox);
  rig().engine->Shutdown();
  EXPECT_EQ(rig().engine->Submit(MakeRequest(1, 1)).status().code(), absl::StatusCode::kUnavailable);
  rig().engine.reset();
  EXPECT_EQ(SinkOf(running).outcome().reason, EndReason::kCancelled);
  EXPECT_EQ(SinkOf(running).outcome().completion_tokens, 1);
  EXPECT_EQ(SinkOf(in_inbox).outcome().reason, EndReason::kCancelled);
}

// The engine thread.

TEST_F(EngineTest, WaitForWorkWakesForARequestAndEndsAtShutdown) {
  const Request request = MakeRequest(10, 7);
  EngineRig& rig = this->rig();
  std::thread thread([&rig] {
    while (rig.engine->WaitForWork()) rig.Step();
  });
  rig.Submit(request);
  EXPECT_EQ(SinkOf(request).WaitForEnd().completion_tokens, 7);
  rig.engine->Shutdown();
  thread.join();
}

TEST_F(EngineTest, ShutdownEndsTheLoopAlsoWithWorkPending) {
  rig().Submit(MakeRequest(10, 7));
  rig().Step();
  EXPECT_TRUE(rig().engine->WaitForWork());
  rig().engine->Shutdown();
  EXPECT_FALSE(rig().engine->WaitForWork());
}

}  // namespace
}  // namespace qanat::engine
