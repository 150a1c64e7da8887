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
  EXPECT_EQ(sink.outcome().recomputed_tokens, 0) << "what follows a pause is its reader's affair";
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

TEST_F(EnginePauseTest, AReadersTimeMakesNoAnswerSeemSlow) {
  EngineOptions options = SmallOptions();
  options.max_seqs = 1;
  options.stall_limit = std::chrono::hours(1);
  Start(options);
  const Request slow = MakeSlow(5);
  const SequenceId id = rig().Submit(slow);
  StepUntilPaused();
  rig().clock.Advance(std::chrono::minutes(10));
  NarrowSinkOf(slow).Widen(100);
  rig().engine->Resume(id);
  rig().RunAll();
  ASSERT_GE(SinkOf(slow).outcome().decode, std::chrono::minutes(10)) << "as its reader saw it";
  rig().Submit(MakeRequest(10, 40, 200));
  rig().Step();
  rig().Submit(MakeRequest(10, 40, 300));
  Request hurried = MakeRequest(10, 30, 400);
  hurried.deadline = rig().clock.Now() + std::chrono::seconds(10);
  EXPECT_TRUE(rig().engine->Submit(hurried).ok());
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

// Takes so many scores of the prompt and tokens, then as many more.
class PagingSink final : public fakes::RecordingSink {
 public:
  explicit PagingSink(int32_t page) : page_(page), room_(page) {}
  int32_t Room() const override {
    return room_ - static_cast<int32_t>(prompt_scores().size() + tokens().size());
  }
  void TurnPage() { room_ = page_ + room_ - Room(); }

 private:
  const int32_t page_;
  int32_t room_;
};

// Runs `request` alone, turning the page at each pause; how many tokens were computed.
int64_t RunPaging(EngineRig& rig, Request& request, int32_t page) {
  const auto sink = std::make_shared<PagingSink>(page);
  request.sink = sink;
  const SequenceId id = rig.Submit(request);
  while (!sink->ended()) {
    rig.Step();
    EXPECT_GE(sink->Room(), 0) << "told more than it takes";
    if (rig.engine->Snapshot().paused == 0) continue;
    sink->TurnPage();
    rig.engine->Resume(id);
  }
  EXPECT_EQ(sink->tokens(), rig.Answer(request));
  EXPECT_EQ(sink->outcome().cached_tokens, 0);
  return rig.runner.computed_tokens();
}

TEST(EnginePagingTest, APromptThatIsScoredGoesOnWhereItsReaderMadeItPause) {
  for (const int depth : {1, 2}) {
    EngineRig rig(SmallOptions(), depth);
    Request request = EngineRig::MakeRequest(EngineRig::Prompt(200), 4);
    request.prompt_logprobs = 1;
    // A pause costs what lies behind the last full block; in flight, a page more.
    EXPECT_LE(RunPaging(rig, request, 16), depth * 200 + 4 + 14 * 4);
    EXPECT_EQ(EngineRig::SinkOf(request).prompt_scores().size(), 199u);
  }
}

// What others published is not its own.
TEST(EnginePagingTest, WhoBypassesTheCacheStillComputesTheRestOfItsPrompt) {
  EngineRig rig(SmallOptions());
  const Request before = EngineRig::MakeRequest(EngineRig::Prompt(100), 1);
  rig.Submit(before);
  rig.RunAll();
  Request request = EngineRig::MakeRequest(EngineRig::Prompt(100), 2);
  request.bypass_prefix_cache = true;
  const auto sink = std::make_shared<NarrowSink>(1);
  request.sink = sink;
  const SequenceId id = rig.Submit(request);
  rig.Step();
  ASSERT_EQ(rig.runner.computed_tokens(), 100 + 32) << "a chunk of it";
  sink->Widen(0);
  rig.Step();
  ASSERT_EQ(rig.engine->Snapshot().paused, 1);
  sink->Widen(100);
  rig.engine->Resume(id);
  rig.RunAll();
  EXPECT_EQ(rig.runner.computed_tokens(), 100 + 100 + 1);
}

TEST(EnginePagingTest, WhoBypassesTheCacheFindsWhatItComputedItself) {
  EngineRig rig(SmallOptions());
  const Request before = EngineRig::MakeRequest(EngineRig::Prompt(100), 1);
  rig.Submit(before);
  rig.RunAll();
  Request request = EngineRig::MakeRequest(EngineRig::Prompt(100), 40);
  request.bypass_prefix_cache = true;
  const int64_t computed = RunPaging(rig, request, 8) - 100;
  EXPECT_GE(computed, 100 + 39) << "every prompt token";
  EXPECT_LE(computed, 100 + 39 + 5 * 4);
}

}  // namespace
}  // namespace qanat::engine
