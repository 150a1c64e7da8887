// Readers that take no more: their requests are paused, and go on or end.
#include <chrono>
#include <memory>

#include "common/base/error.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

using std::chrono::milliseconds;

// A sink that takes a number of tokens and no more.
class NarrowSink final : public fakes::RecordingSink {
 public:
  explicit NarrowSink(int32_t room) : room_(room) {}
  int32_t Room() const override { return room_ - static_cast<int32_t>(tokens().size()); }
  void OnPaused() override { ++pauses_; }
  void Widen(int32_t room) { room_ = room; }
  int pauses() const { return pauses_; }

 private:
  int32_t room_;
  int pauses_ = 0;
};

class EnginePauseTest : public EngineFixture {
 protected:
  void StartWithStallLimit(Duration limit) {
    EngineOptions options = SmallOptions();
    options.stall_limit = limit;
    Start(options);
  }
  // A request whose reader takes `room` tokens.
  static Request MakeSlow(int32_t room, TokenId first = 1) {
    Request request = MakeRequest(10, 30, first);
    request.sink = std::make_shared<NarrowSink>(room);
    return request;
  }
  static NarrowSink& NarrowSinkOf(const Request& slow) { return static_cast<NarrowSink&>(*slow.sink); }
  void StepUntilPaused(int count = 1) {
    while (Snapshot().paused < count) rig().Step();
  }
};

TEST_F(EnginePauseTest, PausesWhoseReaderTakesNoMoreAndGoesOnWhereItWas) {
  const Request slow = MakeSlow(5);
  NarrowSink& sink = NarrowSinkOf(slow);
  const Request other = MakeRequest(10, 40, 500);
  const SequenceId id = rig().Submit(slow);
  rig().Submit(other);
  StepUntilPaused();
  EXPECT_EQ(sink.tokens().size(), 5u);
  EXPECT_EQ(sink.pauses(), 1);
  EXPECT_EQ(Snapshot().running, 1) << "it gives up its seat";
  rig().RunAll();
  EXPECT_TRUE(SinkOf(other).ended()) << "and holds nobody up";
  EXPECT_EQ(Snapshot().referenced_blocks, 0) << "nor any memory";
  sink.Widen(100);
  rig().engine->Resume(id);
  rig().engine->Resume(id);  // said twice: nothing more happens
  rig().RunAll();
  EXPECT_EQ(sink.tokens(), rig().Answer(slow));
  EXPECT_EQ(sink.outcome().reason, EndReason::kLength);
  EXPECT_EQ(sink.outcome().preemptions, 0);
  EXPECT_EQ(sink.pauses(), 1);
  ExpectIdleAndClean();
}

TEST_F(EnginePauseTest, AReaderThatStaysAwayTooLongLosesItsRequest) {
  StartWithStallLimit(milliseconds(50));
  const Request slow = MakeSlow(1);
  const NarrowSink& sink = NarrowSinkOf(slow);
  rig().Submit(slow);
  StepUntilPaused();
  rig().clock.Advance(milliseconds(48));
  rig().Step();
  EXPECT_FALSE(sink.ended());
  rig().clock.Advance(milliseconds(2));
  rig().Step();
  ASSERT_TRUE(sink.ended());
  EXPECT_EQ(sink.outcome().reason, EndReason::kCancelled);
  EXPECT_EQ(ReasonOf(sink.outcome().status), "READER_STALLED");
  ExpectIdleAndClean();
}

TEST_F(EnginePauseTest, ThePausedAreCancelledAndExpireLikeAnybody) {
  const Request cancelled = MakeSlow(1);
  Request expired = MakeSlow(1, 500);
  expired.deadline = rig().clock.Now() + milliseconds(500);
  const SequenceId id = rig().Submit(cancelled);
  rig().Submit(expired);
  StepUntilPaused(2);
  rig().engine->Cancel(id, EndReason::kCancelled);
  rig().Step();
  EXPECT_EQ(SinkOf(cancelled).outcome().reason, EndReason::kCancelled);
  rig().clock.Advance(milliseconds(500));
  rig().Step();
  EXPECT_EQ(SinkOf(expired).outcome().reason, EndReason::kDeadline);
  ExpectIdleAndClean();
}

TEST_F(EnginePauseTest, WaitingForWorkSleepsPastNoPausedRequestsEnd) {
  StartWithStallLimit(milliseconds(50));
  const Request slow = MakeSlow(1);
  rig().Submit(slow);
  StepUntilPaused();
  rig().clock.Advance(milliseconds(50));
  EXPECT_TRUE(rig().engine->WaitForWork());
  rig().Step();
  EXPECT_TRUE(SinkOf(slow).ended());
}

}  // namespace
}  // namespace qanat::engine
