// Cancellation and deadlines, in every state.
#include <chrono>

#include "common/base/error.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

using std::chrono::milliseconds;

using EngineCancelTest = EngineFixture;

TEST_F(EngineCancelTest, CancelsInTheInbox) {
  const Request request = MakeRequest(10, 7);
  const SequenceId id = rig().Submit(request);
  rig().engine->Cancel(id, EndReason::kCancelled);
  EXPECT_TRUE(rig().Step());
  ASSERT_TRUE(SinkOf(request).ended());
  EXPECT_EQ(SinkOf(request).outcome().status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(rig().runner.computed_tokens(), 0);
  ExpectIdleAndClean();
}

TEST_F(EngineCancelTest, CancelsInTheQueue) {
  StartWithOneSeat();
  const Request running = MakeRequest(10, 20);
  const Request waiting = MakeRequest(10, 20, 300);
  rig().Submit(running);
  const SequenceId id = rig().Submit(waiting);
  rig().Step();
  EXPECT_EQ(Snapshot().waiting, 1);
  rig().engine->Cancel(id, EndReason::kCancelled);
  rig().Step();
  EXPECT_TRUE(SinkOf(waiting).ended());
  EXPECT_EQ(Snapshot().waiting, 0);
  rig().RunAll();
  EXPECT_EQ(SinkOf(running).tokens(), rig().Answer(running));
  ExpectIdleAndClean();
}

TEST_F(EngineCancelTest, CancelsWhatRunsAndHasItsBlocksBackInTheSameStep) {
  const Request request = MakeRequest(10, 20);
  const SequenceId id = rig().Submit(request);
  Steps(5);
  EXPECT_EQ(Snapshot().referenced_blocks, 4);
  rig().engine->Cancel(id, EndReason::kCancelled);
  rig().Step();
  EXPECT_EQ(SinkOf(request).outcome().completion_tokens, 5);
  ExpectIdleAndClean();
}

TEST_F(EngineCancelTest, CancelsInTheMiddleOfAPrefill) {
  const Request request = MakeRequest(100, 20);
  const SequenceId id = rig().Submit(request);
  rig().Step();
  rig().engine->Cancel(id, EndReason::kCancelled);
  rig().Step();
  EXPECT_EQ(SinkOf(request).outcome().completion_tokens, 0);
  ExpectIdleAndClean();
}

TEST_F(EngineCancelTest, CancelsWhatIsPreempted) {
  StartWithSmallPool();
  const Request first = MakeRequest(8, 30, 1);
  const Request second = MakeRequest(8, 30, 500);
  rig().engine->Cancel(Preempt(first, second), EndReason::kCancelled);
  rig().Step();
  ASSERT_TRUE(SinkOf(second).ended());
  EXPECT_EQ(SinkOf(second).outcome().preemptions, 1);
  EXPECT_EQ(Snapshot().waiting, 0);
  rig().RunAll();
  EXPECT_EQ(SinkOf(first).tokens(), rig().Answer(first));
  ExpectIdleAndClean();
}

TEST_F(EngineCancelTest, AStopOfTheServiceIsASuccess) {
  const Request request = MakeRequest(10, 20);
  const SequenceId id = rig().Submit(request);
  Steps(3);
  rig().engine->Cancel(id, EndReason::kStop);
  rig().Step();
  const Outcome outcome = SinkOf(request).outcome();
  EXPECT_EQ(outcome.reason, EndReason::kStop);
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.completion_tokens, 3) << "all that were delivered";
}

TEST_F(EngineCancelTest, CancellingTwiceOrTooLateEndsOnce) {
  const Request request = MakeRequest(10, 20);
  const SequenceId id = rig().Submit(request);
  rig().Step();
  rig().engine->Cancel(id, EndReason::kStop);
  rig().engine->Cancel(id, EndReason::kCancelled);
  rig().Step();
  rig().engine->Cancel(id, EndReason::kCancelled);
  rig().engine->Cancel(SequenceId{12345}, EndReason::kCancelled);
  EXPECT_FALSE(rig().Step()) << "nothing to do";
  EXPECT_EQ(SinkOf(request).outcome().reason, EndReason::kStop);  // and a second end would have aborted
  EXPECT_EQ(rig().metrics.ends.size(), 1u);
}

TEST_F(EngineCancelTest, ADeadlineInTheQueueCostsNoCompute) {
  StartWithOneSeat();
  const Request running = MakeRequest(4, 20);
  Request waiting = MakeRequest(10, 20, 300);
  waiting.deadline = rig().clock.Now() + milliseconds(3);
  waiting.priority = Priority::kBatch;
  rig().Submit(running);
  rig().Submit(waiting);
  for (int i = 0; i < 3; ++i) {
    rig().Step();
    EXPECT_FALSE(SinkOf(waiting).ended());
  }
  rig().Step();
  ASSERT_TRUE(SinkOf(waiting).ended());
  EXPECT_EQ(SinkOf(waiting).outcome().reason, EndReason::kDeadline);
  EXPECT_EQ(SinkOf(waiting).outcome().status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReasonOf(SinkOf(waiting).outcome().status), "DEADLINE");
  rig().RunAll();
  EXPECT_EQ(rig().runner.computed_tokens(), 4 + 19) << "only the other's";
}

TEST_F(EngineCancelTest, ADeadlineThatPassesInTheInboxCostsNoCompute) {
  Request request = MakeRequest(10, 20);
  request.deadline = rig().clock.Now() + milliseconds(3);
  rig().Submit(request);
  rig().clock.Advance(milliseconds(3));
  rig().Step();
  EXPECT_EQ(SinkOf(request).outcome().reason, EndReason::kDeadline);
  EXPECT_EQ(rig().runner.computed_tokens(), 0);
}

TEST_F(EngineCancelTest, ADeadlineEndsWhatRuns) {
  Request request = MakeRequest(10, 50);
  request.deadline = rig().clock.Now() + milliseconds(5);
  rig().Submit(request);
  rig().RunAll();
  EXPECT_EQ(SinkOf(request).outcome().reason, EndReason::kDeadline);
  EXPECT_EQ(SinkOf(request).outcome().completion_tokens, 5);
  ExpectIdleAndClean();
}

TEST_F(EngineCancelTest, ADeadlineEndsWhatIsPreempted) {
  StartWithSmallPool();
  Request second = MakeRequest(8, 30, 500);
  second.deadline = rig().clock.Now() + std::chrono::seconds(1);
  second.priority = Priority::kBatch;
  Preempt(MakeRequest(8, 30, 1), second);
  rig().clock.Advance(std::chrono::seconds(1));
  rig().Step();
  EXPECT_EQ(SinkOf(second).outcome().reason, EndReason::kDeadline);
  EXPECT_EQ(SinkOf(second).outcome().preemptions, 1);
}

}  // namespace
}  // namespace qanat::engine
