// The three passes, and who is admitted.
#include "worker/engine/scheduler.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/scheduler_fixture.h"

namespace qanat::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

// Pass 1 and 2.

TEST_F(SchedulerTest, DecodesNeverStarveBehindPrefill) {
  options_.max_batch_tokens = 16;
  Sequence& a = AddPrompt(3);
  Sequence& b = AddPrompt(3);
  RunToDecode();
  Sequence& prefill = Add({.prompt = 100, .priority = Priority::kInteractive});
  for (int i = 0; i < 4; ++i) {
    const StepPlan plan = Step();
    EXPECT_EQ(TokensOf(plan, a), 1);
    EXPECT_EQ(TokensOf(plan, b), 1);
    EXPECT_EQ(TokensOf(plan, prefill), 14) << "what the decodes leave, though it is first in order";
  }
}

TEST_F(SchedulerTest, PrefillsAreCutToTheChunk) {
  Sequence& sequence = AddPrompt(70);
  EXPECT_EQ(TokensOf(Step(), sequence), 32);
  EXPECT_EQ(TokensOf(Step(), sequence), 32);
  const StepPlan last = Plan();
  EXPECT_EQ(TokensOf(last, sequence), 6);
  EXPECT_TRUE(last.rows[0].draws);
  Commit(last);
  EXPECT_EQ(sequence.num_output_tokens(), 1);
}

TEST_F(SchedulerTest, AStepKeepsToItsBudget) {
  options_.max_batch_tokens = 50;
  for (int i = 0; i < 10; ++i) AddPrompt(20);
  for (int i = 0; i < 10; ++i) {
    const StepPlan plan = Step();
    EXPECT_LE(TotalTokens(plan), 50);
    if (i == 0) {
      EXPECT_EQ(TotalTokens(plan), 50) << "and uses it";
    }
  }
}

TEST_F(SchedulerTest, AtMostFourPrefillsStayUnfinished) {
  options_.max_batch_tokens = 1000;
  options_.chunk_tokens = 8;
  for (int i = 0; i < 6; ++i) AddPrompt(24);
  Step();
  EXPECT_EQ(scheduler().running().size(), 4u);
  Step();
  EXPECT_EQ(scheduler().running().size(), 4u);
  const StepPlan plan = Step();  // the four are done with this step
  EXPECT_EQ(plan.rows.size(), 6u);
}

TEST_F(SchedulerTest, PromptsThatFitAStepAreNotCountedAsPrefills) {
  options_.max_batch_tokens = 1000;
  for (int i = 0; i < 10; ++i) AddPrompt(8);
  EXPECT_EQ(Step().rows.size(), 10u);
}

TEST_F(SchedulerTest, AShortPromptPassesTheFifthLongOne) {
  options_.max_batch_tokens = 1000;
  options_.chunk_tokens = 8;
  for (int i = 0; i < 5; ++i) AddPrompt(24);
  Sequence& brief = AddPrompt(8);
  Step();
  EXPECT_TRUE(Runs(brief));
  EXPECT_EQ(scheduler().running().size(), 5u);
}

TEST_F(SchedulerTest, SeatsAreLimited) {
  options_.max_seqs = 3;
  for (int i = 0; i < 5; ++i) AddPrompt(2);
  EXPECT_EQ(Step().rows.size(), 3u);
  EXPECT_EQ(scheduler().waiting().size(), 2);
}

// Pass 3: order.

TEST_F(SchedulerTest, OrderIsClassThenDueTimeThenArrival) {
  options_.max_seqs = 1;
  Sequence& batch = Add({.priority = Priority::kBatch, .deadline = now_ + milliseconds(50)});
  Sequence& first = AddPrompt(1);
  Sequence& second = AddPrompt(1);
  Sequence& urgent = Add({.deadline = now_ + seconds(2)});
  Sequence& interactive = Add({.priority = Priority::kInteractive});
  std::vector<const Sequence*> order;
  for (const auto& [key, place] : scheduler().waiting()) order.push_back(place.sequence);
  EXPECT_THAT(order, ElementsAre(&interactive, &urgent, &first, &second, &batch));
  Step();
  EXPECT_TRUE(Runs(interactive));
}

TEST_F(SchedulerTest, ADistantDeadlineGivesNoBetterPlaceThanTheClassDoes) {
  Sequence& first = AddPrompt(1);
  Sequence& patient = Add({.deadline = now_ + std::chrono::hours(1)});
  EXPECT_LT(first.order(), patient.order());
  Sequence& third = AddPrompt(1);
  EXPECT_LT(patient.order(), third.order());
}

// Pass 3: hits.

TEST_F(SchedulerTest, AFullyCachedPromptComputesAtLeastOneToken) {
  Sequence& first = Add({.prompt = 16, .first = 1});
  RunToDecode();
  Remove(first);
  Sequence& again = Add({.prompt = 16, .first = 1});
  const StepPlan plan = Step();
  EXPECT_EQ(TokensOf(plan, again), 4) << "15 tokens may hit, in blocks of 4";
  EXPECT_EQ(plan.hit_tokens, 12);
  EXPECT_EQ(plan.queried_tokens, 16);
}

TEST_F(SchedulerTest, BypassReadsNoCachedBlockButPublishes) {
  Sequence& first = Add({.prompt = 17, .first = 1, .bypass = true});
  RunToDecode();
  Remove(first);
  Sequence& again = Add({.prompt = 17, .first = 1, .bypass = true});
  StepPlan plan = Step();
  EXPECT_EQ(TokensOf(plan, again), 17);
  EXPECT_EQ(plan.queried_tokens, 0);
  Remove(again);
  Sequence& reader = Add({.prompt = 17, .first = 1});
  plan = Step();
  EXPECT_EQ(TokensOf(plan, reader), 1);
}

// Pass 3: room.

TEST_F(SchedulerTest, AdmitsWhenOneSpareBlockForEveryoneIsLeft) {
  Sequence& running = AddPrompt(2);
  RunToDecode();
  Sequence& waiting = AddPrompt(12);  // 3 blocks, and 2 to spare: one each
  LeaveFree(4);
  Step();
  EXPECT_FALSE(Runs(waiting));
  LeaveFree(5);
  Step();
  EXPECT_TRUE(Runs(waiting));
  EXPECT_TRUE(Runs(running));
}

TEST_F(SchedulerTest, BlocksThatTheRunningHaveYetToTakeAreNotGivenAway) {
  options_.chunk_tokens = 8;
  AddPrompt(24);
  Step();
  // The prefill has 2 of its 6 blocks; this step takes 2 more, 2 stay unallocated.
  Sequence& waiting = AddPrompt(4);
  LeaveFree(2 + 2 + 1 + 2 - 1);
  Step();
  EXPECT_FALSE(Runs(waiting));
  LeaveFree(2 + 1 + 2);  // one step on, all of the prefill is allocated
  Step();
  EXPECT_TRUE(Runs(waiting));
}

TEST_F(SchedulerTest, HitsThatOthersHoldNeedNoBlock) {
  Sequence& holder = Add({.prompt = 17, .first = 1});
  RunToDecode();
  Sequence& same = Add({.prompt = 17, .first = 1});  // 5 blocks, 4 of them held
  LeaveFree(2);
  Step();
  EXPECT_FALSE(Runs(same));
  LeaveFree(3);
  Step();
  EXPECT_TRUE(Runs(same));
  EXPECT_TRUE(Runs(holder));
}

TEST_F(SchedulerTest, HitsInTheFreeListAreTakenOutOfIt) {
  Sequence& gone = Add({.prompt = 17, .first = 1});
  RunToDecode();
  Remove(gone);
  AddPrompt(2);
  RunToDecode();
  Sequence& same = Add({.prompt = 17, .first = 1});
  LeaveFree(4 + 2);  // the cached blocks are the last ones left, and taken by the hit
  Step();
  EXPECT_FALSE(Runs(same));
  LeaveFree(4 + 3);
  const StepPlan plan = Step();
  EXPECT_EQ(TokensOf(plan, same), 1);
}

TEST_F(SchedulerTest, WhenNothingRunsTheHeadIsAdmittedWhateverItNeeds) {
  options_.num_blocks = 8;
  Sequence& all = Add({.prompt = 30, .max_tokens = 2});
  Step();
  EXPECT_TRUE(Runs(all));
}

TEST_F(SchedulerTest, AHeadThatDoesNotFitIsPassedByAtMostEight) {
  AddPrompt(2);
  RunToDecode();
  Sequence& head = AddPrompt(80);
  std::vector<Sequence*> small;
  for (int i = 0; i < 10; ++i) small.push_back(&AddPrompt(2));
  LeaveFree(20);
  Step();
  EXPECT_FALSE(Runs(head));
  EXPECT_EQ(std::count_if(small.begin(), small.end(), [](Sequence* s) { return Runs(*s); }), 8);
  for (Sequence* sequence : small) {
    if (Runs(*sequence)) Remove(*sequence);
  }
  Step();
  EXPECT_EQ(scheduler().waiting().size(), 3) << "now nobody passes it any more";
  FreeBallast();
  Step();
  EXPECT_TRUE(Runs(head));
}

TEST_F(SchedulerTest, AtMostEightThatDoNotFitAreLookedPast) {
  AddPrompt(2);
  RunToDecode();
  for (int i = 0; i < 9; ++i) AddPrompt(80);
  Sequence& small = AddPrompt(2);
  LeaveFree(10);
  Step();
  EXPECT_FALSE(Runs(small));
}

// Pass 3: blocks that someone computes already.

TEST_F(SchedulerTest, ARequestWaitsForTheBlockThatAnotherIsComputing) {
  options_.chunk_tokens = 8;
  Sequence& producer = Add({.prompt = 20, .first = 1});
  Sequence& follower = Add({.prompt = 20, .first = 1});
  Step();
  EXPECT_FALSE(Runs(follower));
  Step();
  EXPECT_FALSE(Runs(follower));
  ASSERT_EQ(producer.num_computed(), 16) << "all that the follower may hit";
  const StepPlan plan = Step();
  EXPECT_EQ(TokensOf(plan, follower), 4);
}

TEST_F(SchedulerTest, WaitingForABlockHoldsNoSeatAndIsNoPass) {
  options_.chunk_tokens = 4;
  Add({.prompt = 40, .first = 1});
  Sequence& follower = Add({.prompt = 40, .first = 1});
  std::vector<Sequence*> others;
  for (int i = 0; i < 12; ++i) others.push_back(&AddPrompt(2));
  Step();
  for (Sequence* other : others) EXPECT_TRUE(Runs(*other)) << "twelve, and eight is the limit of passes";
  EXPECT_FALSE(Runs(follower));
  EXPECT_EQ(follower.table().size(), 0);
}

TEST_F(SchedulerTest, AHigherClassDoesNotWaitForALowerOne) {
  options_.chunk_tokens = 8;
  Add({.prompt = 40, .first = 1, .priority = Priority::kBatch});
  Step();
  Sequence& higher = Add({.prompt = 40, .first = 1, .priority = Priority::kStandard});
  Sequence& same = Add({.prompt = 40, .first = 1, .priority = Priority::kBatch});
  Step();
  EXPECT_TRUE(Runs(higher));
  EXPECT_FALSE(Runs(same));
}

TEST_F(SchedulerTest, WhoReadsNoCacheNeverWaits) {
  options_.chunk_tokens = 8;
  Add({.prompt = 40, .first = 1});
  Step();
  Sequence& bypass = Add({.prompt = 40, .first = 1, .bypass = true});
  Step();
  EXPECT_TRUE(Runs(bypass));
}

TEST_F(SchedulerTest, WhenTheProducerEndsItsFollowerComputes) {
  options_.chunk_tokens = 8;
  Sequence& producer = Add({.prompt = 40, .first = 1});
  Sequence& follower = Add({.prompt = 40, .first = 1});
  Step();
  Remove(producer);
  const StepPlan plan = Step();
  EXPECT_EQ(plan.rows.size(), 1u);
  EXPECT_EQ(follower.num_computed(), 16) << "8 of the producer, 8 of its own";
}

// Every drawn token is the same, so from the third on there is something to guess by.
class SchedulerDraftsTest : public SchedulerTest {
 protected:
  SchedulerDraftsTest() { options_.speculation = true; }
  // Steps as a model does that is never right about a guess, until somebody drafts or `steps` are over.
  int32_t DraftsWithin(int steps) {
    for (int i = 0; i < steps; ++i) {
      const StepPlan plan = Plan();
      int32_t drafts = 0;
      for (const PlannedRow& row : plan.rows) drafts += row.num_drafts();
      Commit(plan);
      for (const PlannedRow& row : plan.rows) {
        if (row.num_drafts() > 0 && Runs(*row.sequence)) scheduler().EndDrafts(row, 0);
      }
      if (drafts > 0) return drafts;
    }
    return 0;
  }
};

TEST_F(SchedulerDraftsTest, GuessesWhileFewRun) {
  for (int i = 0; i < kMaxDraftingSequences; ++i) AddPrompt(4);
  EXPECT_GT(DraftsWithin(8), 0);
  scheduler().CheckInvariants();
  AddPrompt(4);
  EXPECT_EQ(DraftsWithin(40), 0) << "with one more nobody guesses";
}

TEST_F(SchedulerDraftsTest, GuessesBesideNoPrefill) {
  options_.chunk_tokens = 4;
  AddPrompt(4);
  ASSERT_GT(DraftsWithin(8), 0);
  AddPrompt(200);
  EXPECT_EQ(DraftsWithin(40), 0);
}

TEST_F(SchedulerDraftsTest, GuessesWhatTheStepHasTimeFor) {
  options_.inter_token_target = std::chrono::milliseconds(100);
  model_ = {.token_us = 15000};
  for (int i = 0; i < kMaxDraftingSequences; ++i) AddPrompt(4);
  EXPECT_EQ(DraftsWithin(40), 2) << "of 100 ms the decodes take 60";
  model_ = {.token_us = 30000};
  EXPECT_EQ(DraftsWithin(40), 0) << "the decodes are late already";
}

TEST_F(SchedulerDraftsTest, TakesOnlyBlocksThatHoldNothing) {
  options_.num_blocks = 4;
  options_.context_length = 16;
  // A published prefix of another lies in the free list: a guess is not worth it.
  Sequence& ended = AddPrompt(8);
  RunToDecode();
  Remove(ended);
  Add({.prompt = 5, .max_tokens = 11});
  int32_t most = 0;
  while (!scheduler().running().empty() || scheduler().waiting().size() > 0) {
    const int32_t free = kv().pool().num_free();
    const int32_t cached = kv().pool().num_cached();
    const StepPlan plan = Plan();
    for (const PlannedRow& row : plan.rows) {
      most = std::max(most, row.num_drafts());
      const int32_t needed = kv().BlocksFor(row.sequence->num_tokens());
      EXPECT_TRUE(row.sequence->table().size() == needed || kv().pool().num_cached() == cached || free > 0)
          << "a cached block went for a guess";
    }
    Commit(plan);
    for (const PlannedRow& row : plan.rows) {
      if (row.num_drafts() > 0 && Runs(*row.sequence)) scheduler().EndDrafts(row, 0);
    }
  }
  EXPECT_GT(most, 0);
}

TEST_F(SchedulerTest, WithoutPrefixCacheNobodyWaits) {
  options_.prefix_cache = false;
  options_.chunk_tokens = 8;
  Add({.prompt = 40, .first = 1});
  Sequence& follower = Add({.prompt = 40, .first = 1});
  Step();
  EXPECT_TRUE(Runs(follower));
  EXPECT_EQ(scheduler().producing().total(), 0);
}

}  // namespace
}  // namespace qanat::engine
