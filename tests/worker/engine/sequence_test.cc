#include "worker/engine/sequence.h"

#include <chrono>

#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

using std::chrono::milliseconds;

class SequenceTest : public testing::Test {
 protected:
  static constexpr Time kArrival{std::chrono::hours(1)};

  Sequence Make(int prompt, int max_tokens, std::vector<TokenId> end_tokens = {}) {
    Request request = EngineRig::MakeRequest(EngineRig::Prompt(prompt), max_tokens);
    request.end_tokens = std::move(end_tokens);
    return {SequenceId{1}, std::move(request), kArrival, options_, kv::BlockTable({}, 0)};
  }
  static Time At(int ms) { return kArrival + milliseconds(ms); }

  EngineOptions options_ = SmallOptions();
};

TEST_F(SequenceTest, ComputingTheLastTokenDrawsTheNext) {
  Sequence sequence = Make(5, 10);
  sequence.Admit(0, At(1));
  EXPECT_EQ(sequence.num_missing(), 5);
  sequence.Advance(3);
  EXPECT_EQ(sequence.num_missing(), 2);
  sequence.Advance(2);
  EXPECT_EQ(sequence.Append(42, At(2)), std::nullopt);
  EXPECT_EQ(sequence.num_missing(), 1);
  EXPECT_EQ(sequence.output()[0], 42);
}

TEST_F(SequenceTest, EndsAtMaxTokens) {
  Sequence sequence = Make(2, 2);
  sequence.Admit(0, At(1));
  sequence.Advance(2);
  EXPECT_EQ(sequence.Append(42, At(2)), std::nullopt);
  sequence.Advance(1);
  EXPECT_EQ(sequence.Append(43, At(3)), EndReason::kLength);
}

TEST_F(SequenceTest, EndsAtTheContext) {
  Sequence sequence = Make(options_.context_length - 1, 100);
  EXPECT_EQ(sequence.max_total_tokens(), options_.context_length);
  sequence.Admit(0, At(1));
  sequence.Advance(options_.context_length - 1);
  EXPECT_EQ(sequence.Append(42, At(2)), EndReason::kLength);
}

TEST_F(SequenceTest, MaxTokensDoesNotOverflow) {
  EXPECT_EQ(Make(10, 2147483647).max_total_tokens(), options_.context_length);
}

TEST_F(SequenceTest, AnEndTokenStopsAlsoWhereTheLengthWould) {
  Sequence sequence = Make(2, 1, {9, 42});
  sequence.Admit(0, At(1));
  sequence.Advance(2);
  EXPECT_EQ(sequence.Append(42, At(2)), EndReason::kStop);
  EXPECT_EQ(sequence.num_output_tokens(), 1);
}

TEST_F(SequenceTest, PreemptionForgetsWhatIsComputedAndKeepsTheTokens) {
  Sequence sequence = Make(5, 10);
  sequence.Admit(0, At(1));
  sequence.Advance(5);
  sequence.Append(42, At(2));
  sequence.Preempt();
  EXPECT_EQ(sequence.num_computed(), 0);
  EXPECT_EQ(sequence.num_tokens(), 6);
  EXPECT_EQ(sequence.num_preemptions(), 1);
  sequence.Admit(4, At(3));
  EXPECT_EQ(sequence.num_admitted_tokens(), 6);
  EXPECT_EQ(sequence.Advance(2), 1) << "of the two, one had been computed";
}

TEST_F(SequenceTest, OnlyWhatAPreemptionLostIsComputedAgain) {
  Sequence sequence = Make(20, 10);
  sequence.Admit(0, At(1));
  sequence.Advance(12);
  sequence.Pause(At(2));
  sequence.Resume();
  sequence.Admit(0, At(3));
  EXPECT_EQ(sequence.Advance(4), 0) << "its reader's doing";
  sequence.StartOver();
  sequence.Admit(0, At(4));
  EXPECT_EQ(sequence.Advance(8), 0) << "nobody's";
  sequence.Preempt();
  sequence.Admit(0, At(5));
  EXPECT_EQ(sequence.Advance(6), 6);
  sequence.Pause(At(6));
  sequence.Resume();
  sequence.Admit(0, At(7));
  EXPECT_EQ(sequence.Advance(7), 1) << "six of them were computed since";
  sequence.Preempt();
  sequence.Admit(0, At(8));
  EXPECT_EQ(sequence.Advance(20), 8) << "seven again, and the one that the first preemption lost";
}

TEST_F(SequenceTest, OutcomeCountsAndTimes) {
  Sequence sequence = Make(5, 10);
  sequence.Admit(4, At(3));
  sequence.Advance(1);
  sequence.Append(42, At(10));
  sequence.Preempt();
  sequence.Admit(0, At(11));
  sequence.Advance(6);
  sequence.Append(43, At(30));
  sequence.Preempt();
  const Outcome outcome = sequence.End(EndReason::kCancelled, absl::CancelledError(), At(40));
  EXPECT_EQ(outcome.prompt_tokens, 5);
  EXPECT_EQ(outcome.cached_tokens, 4) << "of the first admission";
  EXPECT_EQ(outcome.completion_tokens, 2);
  EXPECT_EQ(outcome.queue, milliseconds(3));
  EXPECT_EQ(outcome.prefill, milliseconds(7));
  EXPECT_EQ(outcome.decode, milliseconds(20));
  EXPECT_EQ(outcome.preemptions, 2);
  EXPECT_EQ(outcome.recomputed_tokens, 5);
}

TEST_F(SequenceTest, OneThatNeverRanHasNoTimeToItsStart) {
  Sequence sequence = Make(5, 10);
  const Outcome outcome = sequence.End(EndReason::kDeadline, absl::DeadlineExceededError(""), At(8));
  EXPECT_EQ(outcome.queue, std::nullopt);
  EXPECT_EQ(outcome.prefill, Duration{});
  EXPECT_EQ(outcome.decode, Duration{});
}

using SequenceDeathTest = SequenceTest;

TEST_F(SequenceDeathTest, IllegalTransitionsAbort) {
  Sequence sequence = Make(5, 10);
  EXPECT_DEATH(sequence.Preempt(), "check failed");
  EXPECT_DEATH(sequence.Advance(1), "check failed");
  EXPECT_DEATH(sequence.Append(1, At(1)), "check failed");
  EXPECT_DEATH(sequence.Admit(5, At(1)), "one token must be computed");
  sequence.Admit(0, At(1));
  EXPECT_DEATH(sequence.Admit(0, At(1)), "check failed");
  EXPECT_DEATH(sequence.Append(1, At(1)), "check failed") << "not all is computed";
  EXPECT_DEATH(sequence.Advance(6), "check failed");
  sequence.End(EndReason::kStop, absl::OkStatus(), At(2));
  EXPECT_DEATH(sequence.End(EndReason::kStop, absl::OkStatus(), At(2)), "check failed");
  EXPECT_DEATH(sequence.Admit(0, At(3)), "check failed");
}

TEST_F(SequenceTest, WhoStopsRunningKeepsNoIndexOfItsTokens) {
  Sequence sequence = Make(5, 10);
  sequence.Admit(0, At(1));
  sequence.prompt_lookup();
  ASSERT_TRUE(sequence.has_prompt_lookup());
  sequence.Preempt();
  EXPECT_FALSE(sequence.has_prompt_lookup());
}

TEST_F(SequenceTest, ATokenIsToldOnceAndInOrder) {
  Sequence sequence = Make(2, 10);
  sequence.Admit(0, At(1));
  sequence.Advance(2);
  sequence.Append(42, At(2));
  EXPECT_DEATH(sequence.Tell(1), "a gap or a repeat");
  sequence.Tell(0);
  EXPECT_EQ(sequence.num_told(), 1);
  EXPECT_DEATH(sequence.Tell(0), "a gap or a repeat");
}

TEST_F(SequenceTest, PausesAreCountedByWhatTheyHoldUp) {
  Sequence sequence = Make(5, 10);
  sequence.Admit(0, At(1));
  sequence.Pause(At(10));
  sequence.Resume();
  sequence.Admit(0, At(15));
  sequence.Advance(5);
  sequence.Append(42, At(16));
  for (int i = 0; i < 2; ++i) {
    sequence.Pause(At(20 + 10 * i));
    sequence.Resume();
    sequence.Admit(0, At(27 + 10 * i));
  }
  sequence.Advance(6);
  sequence.Append(43, At(38));
  EXPECT_EQ(sequence.paused_in_prefill(), milliseconds(5));
  EXPECT_EQ(sequence.paused_in_decode(), milliseconds(14));
}

TEST_F(SequenceTest, APauseThatNoTokenFollowsIsNoPartOfDecode) {
  Sequence sequence = Make(5, 10);
  sequence.Admit(0, At(1));
  sequence.Advance(5);
  sequence.Append(42, At(10));
  sequence.Pause(At(11));
  sequence.Resume();
  sequence.Admit(0, At(25'000));
  sequence.Preempt();
  const Outcome outcome = sequence.End(EndReason::kDeadline, absl::DeadlineExceededError(""), At(25'001));
  EXPECT_EQ(outcome.decode, Duration{});
  EXPECT_EQ(sequence.paused_in_decode(), Duration{});
}

}  // namespace
}  // namespace qanat::engine
