// Who gives way when the pool is empty.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/scheduler_fixture.h"

namespace qanat::engine {
namespace {

using SchedulerPreemptionTest = SchedulerTest;

TEST_F(SchedulerPreemptionTest, PreemptsTheLastWhenAllHoldTheSame) {
  // Their blocks are full: the next token of each needs a new one.
  Sequence& first = AddPrompt(8);
  Sequence& second = AddPrompt(8);
  Sequence& third = AddPrompt(8);
  RunToDecode();
  LeaveFree(0);
  const StepPlan plan = Step();
  EXPECT_EQ(plan.preemptions, 1);
  EXPECT_TRUE(Runs(first));
  EXPECT_TRUE(Runs(second)) << "the third's two blocks serve two";
  EXPECT_FALSE(Runs(third));
  EXPECT_EQ(third.num_preemptions(), 1);
  EXPECT_EQ(third.table().size(), 0);
}

TEST_F(SchedulerPreemptionTest, PreemptsWhomItCostsLeastToComputeAgain) {
  Sequence& first = AddPrompt(8);
  Sequence& brief = AddPrompt(5);
  Sequence& lengthy = AddPrompt(14);
  RunToDecode();
  LeaveFree(0);
  Step();
  EXPECT_TRUE(Runs(first));
  EXPECT_FALSE(Runs(brief));
  EXPECT_TRUE(Runs(lengthy));
}

TEST_F(SchedulerPreemptionTest, WeighsTheLastFourOnly) {
  Sequence& first = AddPrompt(8);
  Sequence& briefest = AddPrompt(2);
  std::vector<Sequence*> last;
  for (const int prompt : {14, 13, 10, 14}) last.push_back(&AddPrompt(prompt));
  RunToDecode();
  LeaveFree(0);
  Step();
  EXPECT_TRUE(Runs(first));
  EXPECT_TRUE(Runs(briefest)) << "the fifth from the end";
  EXPECT_TRUE(Runs(*last[0]));
  EXPECT_TRUE(Runs(*last[1]));
  EXPECT_FALSE(Runs(*last[2]));
  EXPECT_TRUE(Runs(*last[3]));
}

TEST_F(SchedulerPreemptionTest, OnlyLaterOnesGiveWay) {
  Sequence& small = AddPrompt(2);
  Sequence& needy = AddPrompt(8);
  Sequence& later = AddPrompt(14);
  RunToDecode();
  LeaveFree(0);
  Step();
  EXPECT_TRUE(Runs(small));
  EXPECT_TRUE(Runs(needy));
  EXPECT_FALSE(Runs(later));
}

TEST_F(SchedulerPreemptionTest, TheLastPreemptsItself) {
  Sequence& first = AddPrompt(5);
  Sequence& needy = AddPrompt(8);
  RunToDecode();
  LeaveFree(0);
  const StepPlan plan = Step();
  EXPECT_TRUE(Runs(first));
  EXPECT_FALSE(Runs(needy));
  EXPECT_EQ(TokensOf(plan, first), 1);
  EXPECT_EQ(plan.rows.size(), 1u);
}

TEST_F(SchedulerPreemptionTest, NobodyIsAdmittedInAStepThatPreempts) {
  AddPrompt(8);
  AddPrompt(40);
  RunToDecode();
  LeaveFree(0);
  Sequence& waiting = AddPrompt(1);
  const StepPlan plan = Step();
  ASSERT_EQ(plan.preemptions, 1);
  EXPECT_GT(kv().pool().num_unreferenced(), 5);
  EXPECT_FALSE(Runs(waiting));
}

// Three histories: `first` fills the pool, and two that hold the very same full blocks come after it.
class SharedVictimTest : public SchedulerPreemptionTest {
 protected:
  void Start() {
    first_ = &AddPrompt(6);
    twin_ = &Add({.prompt = 17, .first = 1});
    Step();
    // What the twin has drawn by then belongs to the prompt of the other: they go in step from here.
    other_twin_ = &Add({.prompt = 17, .first = 1, .tail = {kDrawn}});
    Step();
    ASSERT_EQ(twin_->num_computed(), 18);
    ASSERT_EQ(other_twin_->num_computed(), 18);
  }
  void StepUntilTwinsAreFull() {
    while (twin_->num_computed() < 20) Step();
    ASSERT_EQ(other_twin_->num_computed(), 20);
    for (const kv::BlockId block : twin_->table().blocks()) ASSERT_FALSE(kv().Exclusive(block));
  }
  Sequence* first_ = nullptr;
  Sequence* twin_ = nullptr;
  Sequence* other_twin_ = nullptr;
};

TEST_F(SharedVictimTest, WhoWouldFreeNothingIsPassedOver) {
  Start();
  // Between the twins in order: it is weighed with the last of them.
  StepUntilTwinsAreFull();
  Sequence& costly = Add({.prompt = 30, .deadline = twin_->order().due + std::chrono::nanoseconds(1)});
  RunToDecode();
  while (twin_->num_computed() % 4 != 0) Step();
  ASSERT_LT(twin_->order(), costly.order());
  ASSERT_LT(costly.order(), other_twin_->order());
  LeaveFree(0);
  Step();
  EXPECT_TRUE(Runs(*twin_));
  EXPECT_TRUE(Runs(*other_twin_)) << "the last, but its blocks are the twin's";
  EXPECT_FALSE(Runs(costly));
}

TEST_F(SharedVictimTest, WhenNobodyFreesABlockTheLastGoesAndTheChoiceIsMadeAgain) {
  Start();
  StepUntilTwinsAreFull();
  LeaveFree(0);
  const StepPlan plan = Step();
  EXPECT_EQ(plan.preemptions, 2);
  EXPECT_FALSE(Runs(*other_twin_)) << "its going freed nothing";
  EXPECT_FALSE(Runs(*twin_)) << "so that the needy one, now the last, went too";
  EXPECT_EQ(TokensOf(plan, *first_), 1);
}

TEST_F(SchedulerPreemptionTest, AVictimLosesItsRow) {
  options_.max_batch_tokens = 16;
  options_.chunk_tokens = 12;
  Sequence& decode = AddPrompt(6);
  RunToDecode();
  Sequence& prefill = Add({.prompt = 60, .priority = Priority::kInteractive});
  Step();
  ASSERT_EQ(prefill.num_computed(), 12);
  LeaveFree(0);
  const StepPlan plan = Step();
  EXPECT_FALSE(Runs(decode)) << "planned in pass 1, needed by the prefill in pass 2";
  EXPECT_EQ(plan.rows.size(), 1u);
  EXPECT_EQ(TokensOf(plan, prefill), 8) << "both blocks that came free";
}

TEST_F(SchedulerPreemptionTest, TheBudgetOfAVictimGoesToOthers) {
  options_.max_batch_tokens = 17;
  options_.chunk_tokens = 12;
  Sequence& decode = AddPrompt(14);
  RunToDecode();
  Sequence& prefill = AddPrompt(60);
  Step();
  Step();
  Sequence& urgent = Add({.prompt = 60, .priority = Priority::kInteractive});
  Step();
  Step();
  ASSERT_EQ(decode.num_computed(), 18);
  ASSERT_EQ(prefill.num_computed(), 40);
  ASSERT_EQ(urgent.num_computed(), 16);
  LeaveFree(0);
  const StepPlan plan = Step();
  EXPECT_FALSE(Runs(decode)) << "its five blocks serve both";
  EXPECT_EQ(TokensOf(plan, urgent), 12);
  EXPECT_EQ(TokensOf(plan, prefill), 5) << "the decode's one among them";
}

TEST_F(SchedulerPreemptionTest, APrefillTakesTheBlocksThereAreBeforeItPreempts) {
  Sequence& prefill = AddPrompt(64);
  Sequence& later = AddPrompt(2);
  Step();
  ASSERT_TRUE(Runs(later));
  LeaveFree(2);
  const StepPlan plan = Step();
  EXPECT_EQ(TokensOf(plan, prefill), 8);
  EXPECT_EQ(plan.preemptions, 0);
}

TEST_F(SchedulerPreemptionTest, AResumedSequenceKeepsItsPlaceAndComputesPromptAndOutput) {
  options_.prefix_cache = false;
  options_.max_seqs = 2;
  Sequence& first = AddPrompt(8);
  Sequence& second = AddPrompt(8);
  RunToDecode();
  Step();
  ASSERT_EQ(second.num_output_tokens(), 2);
  LeaveFree(0);
  while (Runs(second)) Step();
  const int32_t known = second.num_tokens();
  ASSERT_GT(known, 8);
  FreeBallast();
  Sequence& newcomer = AddPrompt(2);
  const StepPlan plan = Step();
  EXPECT_EQ(TokensOf(plan, second), known) << "one seat was free, and it was first in order";
  EXPECT_FALSE(Runs(newcomer));
  EXPECT_TRUE(Runs(first));
  EXPECT_EQ(second.num_output_tokens(), known - 8 + 1);
}

// A sequence preempted three times, and one that made it so.
class GuardedSequenceTest : public SchedulerPreemptionTest {
 protected:
  void Start() {
    options_.num_blocks = 40;
    bully_ = &Add({.prompt = 8, .max_tokens = 92});    // 25 blocks at worst
    guarded_ = &Add({.prompt = 8, .max_tokens = 72});  // 20
    while (guarded_->num_preemptions() < kMaxPreemptions) {
      FreeBallast();
      RunToDecode();
      ASSERT_TRUE(Runs(*guarded_));
      LeaveFree(0);
      while (Runs(*guarded_)) Step();
    }
    FreeBallast();
  }
  Sequence* bully_ = nullptr;
  Sequence* guarded_ = nullptr;
};

TEST_F(GuardedSequenceTest, IsAdmittedOnlyWhenAllWorstCasesFit) {
  Start();
  Step();
  EXPECT_FALSE(Runs(*guarded_)) << "though there is room at present";
  Sequence& small = Add({.prompt = 2, .max_tokens = 2});
  Step();
  EXPECT_TRUE(Runs(small)) << "one passes";
  Remove(*bully_);
  Step();
  EXPECT_TRUE(Runs(*guarded_)) << "1 and 20 of 40";
}

TEST_F(GuardedSequenceTest, LaterAdmissionsKeepItsReservation) {
  Start();
  Remove(*bully_);
  Step();
  ASSERT_TRUE(Runs(*guarded_));
  Sequence& large = Add({.prompt = 2, .max_tokens = 82});    // 21 blocks at worst
  Sequence& fitting = Add({.prompt = 2, .max_tokens = 78});  // 20
  Step();
  EXPECT_FALSE(Runs(large));
  EXPECT_TRUE(Runs(fitting));
  Remove(*guarded_);
  Step();
  EXPECT_TRUE(Runs(large)) << "nobody is guarded any more";
}

TEST_F(SchedulerPreemptionTest, TheFirstInOrderIsNeverAVictim) {
  AddPrompt(8);
  RunToDecode();
  LeaveFree(0);
  EXPECT_DEATH(Plan(), "the door let in too much");
}

}  // namespace
}  // namespace qanat::engine
