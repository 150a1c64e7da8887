// The engine through its face: ends, bounds, snapshots and what callers hear.
#include "worker/engine/engine.h"

#include <chrono>
#include <functional>
#include <thread>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::ElementsAre;

class EngineTest : public testing::Test {
 protected:
  void Start(const EngineOptions& options) { rig_ = std::make_unique<EngineRig>(options); }
  EngineRig& rig() {
    if (rig_ == nullptr) Start(SmallOptions());
    return *rig_;
  }
  EngineSnapshot Snapshot() { return rig().engine->Snapshot(); }
  static Request MakeRequest(int prompt, int max_tokens, TokenId first = 1) {
    return EngineRig::MakeRequest(EngineRig::Prompt(prompt, first), max_tokens);
  }
  static fakes::RecordingSink& SinkOf(const Request& request) { return EngineRig::SinkOf(request); }
  void ExpectIdleAndClean() {
    const EngineSnapshot snapshot = Snapshot();
    EXPECT_EQ(snapshot.running, 0);
    EXPECT_EQ(snapshot.waiting, 0);
    EXPECT_EQ(snapshot.waiting_tokens, 0);
    EXPECT_EQ(snapshot.referenced_blocks, 0);
    EXPECT_EQ(snapshot.live_tokens, 0);
    EXPECT_EQ(snapshot.free_blocks + snapshot.cached_blocks, snapshot.total_blocks);
  }

  // Two sequences in a pool for one and a half: when this returns, the second is preempted.
  void StartPreempted(Request& first, Request& second) {
    EngineOptions options = SmallOptions();
    options.num_blocks = 10;
    options.context_length = 40;
    Start(options);
    first = MakeRequest(8, 30, 1);
    second = MakeRequest(8, 30, 500);
    rig().Submit(first);
    second_id_ = rig().Submit(second);
    while (Snapshot().waiting == 2) rig().Step();
    ASSERT_EQ(Snapshot().running, 2);
    while (Snapshot().running == 2) rig().Step();
    ASSERT_EQ(Snapshot().waiting, 1);
    ASSERT_GE(Snapshot().waiting_tokens, 1) << "one is computed at least, others may be cached";
    ASSERT_FALSE(SinkOf(second).ended());
  }
  SequenceId second_id_{};

 private:
  std::unique_ptr<EngineRig> rig_;
};

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

// Cancellation and deadlines, in every state.

TEST_F(EngineTest, CancelsInTheInbox) {
  const Request request = MakeRequest(10, 7);
  const SequenceId id = rig().Submit(request);
  rig().engine->Cancel(id, EndReason::kCancelled);
  EXPECT_TRUE(rig().Step());
  ASSERT_TRUE(SinkOf(request).ended());
  EXPECT_EQ(SinkOf(request).outcome().status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(rig().runner.computed_tokens(), 0);
  ExpectIdleAndClean();
}

TEST_F(EngineTest, CancelsInTheQueue) {
  EngineOptions options = SmallOptions();
  options.max_seqs = 1;
  Start(options);
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

TEST_F(EngineTest, CancelsWhatRunsAndHasItsBlocksBackInTheSameStep) {
  const Request request = MakeRequest(10, 20);
  const SequenceId id = rig().Submit(request);
  for (int i = 0; i < 5; ++i) rig().Step();
  EXPECT_EQ(Snapshot().referenced_blocks, 4);
  rig().engine->Cancel(id, EndReason::kCancelled);
  rig().Step();
  EXPECT_EQ(SinkOf(request).outcome().completion_tokens, 5);
  ExpectIdleAndClean();
}

TEST_F(EngineTest, CancelsInTheMiddleOfAPrefill) {
  const Request request = MakeRequest(100, 20);
  const SequenceId id = rig().Submit(request);
  rig().Step();
  rig().engine->Cancel(id, EndReason::kCancelled);
  rig().Step();
  EXPECT_EQ(SinkOf(request).outcome().completion_tokens, 0);
  ExpectIdleAndClean();
}

TEST_F(EngineTest, CancelsWhatIsPreempted) {
  Request first;
  Request second;
  StartPreempted(first, second);
  rig().engine->Cancel(second_id_, EndReason::kCancelled);
  rig().Step();
  ASSERT_TRUE(SinkOf(second).ended());
  EXPECT_EQ(SinkOf(second).outcome().preemptions, 1);
  EXPECT_EQ(Snapshot().waiting, 0);
  rig().RunAll();
  EXPECT_EQ(SinkOf(first).tokens(), rig().Answer(first));
  ExpectIdleAndClean();
}

TEST_F(EngineTest, AStopOfTheServiceIsASuccess) {
  const Request request = MakeRequest(10, 20);
  const SequenceId id = rig().Submit(request);
  for (int i = 0; i < 3; ++i) rig().Step();
  rig().engine->Cancel(id, EndReason::kStop);
  rig().Step();
  const Outcome outcome = SinkOf(request).outcome();
  EXPECT_EQ(outcome.reason, EndReason::kStop);
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.completion_tokens, 3) << "all that were delivered";
}

TEST_F(EngineTest, CancellingTwiceOrTooLateEndsOnce) {
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

TEST_F(EngineTest, ADeadlineInTheQueueCostsNoCompute) {
  EngineOptions options = SmallOptions();
  options.max_seqs = 1;
  Start(options);
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
  rig().RunAll();
  EXPECT_EQ(rig().runner.computed_tokens(), 4 + 19) << "only the other's";
}

TEST_F(EngineTest, ADeadlineThatPassesInTheInboxCostsNoCompute) {
  Request request = MakeRequest(10, 20);
  request.deadline = rig().clock.Now() + milliseconds(3);
  rig().Submit(request);
  rig().clock.Advance(milliseconds(3));
  rig().Step();
  EXPECT_EQ(SinkOf(request).outcome().reason, EndReason::kDeadline);
  EXPECT_EQ(rig().runner.computed_tokens(), 0);
}

TEST_F(EngineTest, ADeadlineEndsWhatRuns) {
  Request request = MakeRequest(10, 50);
  request.deadline = rig().clock.Now() + milliseconds(5);
  rig().Submit(request);
  rig().RunAll();
  EXPECT_EQ(SinkOf(request).outcome().reason, EndReason::kDeadline);
  EXPECT_EQ(SinkOf(request).outcome().completion_tokens, 5);
  ExpectIdleAndClean();
}

TEST_F(EngineTest, ADeadlineEndsWhatIsPreempted) {
  EngineOptions options = SmallOptions();
  options.num_blocks = 10;
  options.context_length = 40;
  Start(options);
  const Request first = MakeRequest(8, 30, 1);
  Request second = MakeRequest(8, 30, 500);
  second.deadline = rig().clock.Now() + std::chrono::seconds(1);
  second.priority = Priority::kBatch;
  rig().Submit(first);
  rig().Submit(second);
  do {
    rig().Step();
  } while (Snapshot().running == 2);
  ASSERT_EQ(Snapshot().waiting, 1);
  rig().clock.Advance(std::chrono::seconds(1));
  rig().Step();
  EXPECT_EQ(SinkOf(second).outcome().reason, EndReason::kDeadline);
  EXPECT_EQ(SinkOf(second).outcome().preemptions, 1);
}

// Preemption.

TEST_F(EngineTest, WhatWasPreemptedGoesOnWithoutAGapOrARepeat) {
  Request first;
  Request second;
  StartPreempted(first, second);
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
  for (int i = 0; i < 4; ++i) rig().Step();
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

// What others see.

TEST_F(EngineTest, TheSnapshotShowsWhoWaitsAndWhatIsHeld) {
  EngineOptions options = SmallOptions();
  options.max_seqs = 1;
  Start(options);
  rig().Submit(MakeRequest(10, 7));
  rig().Submit(MakeRequest(20, 7, 300));
  EXPECT_EQ(Snapshot().waiting, 2);
  EXPECT_EQ(Snapshot().waiting_tokens, 30);
  rig().Step();
  const EngineSnapshot snapshot = Snapshot();
  EXPECT_EQ(snapshot.running, 1);
  EXPECT_EQ(snapshot.waiting, 1);
  EXPECT_EQ(snapshot.waiting_tokens, 20);
  EXPECT_EQ(snapshot.referenced_blocks, 3);
  EXPECT_EQ(snapshot.live_tokens, 10);
  EXPECT_EQ(snapshot.free_blocks, 61);
  EXPECT_EQ(snapshot.cached_blocks, 0);
  EXPECT_EQ(snapshot.steps, 1u);
  rig().RunAll();
  EXPECT_GT(Snapshot().cached_blocks, 0);
}

TEST_F(EngineTest, TheSnapshotShowsWhatIsLeftToCompute) {
  EngineOptions options = SmallOptions();
  options.max_seqs = 1;
  Start(options);
  const Request first = MakeRequest(40, 7);
  rig().Submit(first);
  rig().Step();
  EXPECT_EQ(Snapshot().prefill_tokens, 40 - 32);
  EXPECT_EQ(Snapshot().context_tokens, 40);
  rig().Step();
  EXPECT_EQ(Snapshot().prefill_tokens, 1) << "the token that was drawn";
  EXPECT_EQ(Snapshot().context_tokens, 41);
  rig().Submit(MakeRequest(40, 7));
  EXPECT_EQ(Snapshot().waiting_tokens, 40) << "nobody has looked";
  rig().Step();
  EXPECT_EQ(Snapshot().waiting, 1) << "no seat";
  EXPECT_EQ(Snapshot().waiting_tokens, 4) << "the others are cached, one is always computed";
  rig().RunAll();
  EXPECT_EQ(Snapshot().waiting_tokens, 0);
}

TEST_F(EngineTest, AVersionOfTheLoadKnowsOfAllBeforeIt) {
  EXPECT_EQ(Snapshot().load_version, 0u);
  const Request first = MakeRequest(10, 2);
  const Request second = MakeRequest(10, 5, 300);
  EXPECT_EQ(rig().engine->Submit(first)->load_version, 1u);
  EXPECT_EQ(rig().engine->Submit(second)->load_version, 2u);
  EXPECT_EQ(Snapshot().load_version, 2u);
  EXPECT_EQ(Snapshot().waiting, 2);
  EXPECT_EQ(rig().listener.load_changes(), 2);
  rig().Step();
  EXPECT_EQ(Snapshot().load_version, 2u) << "a step by itself is no change";
  rig().Step();
  EXPECT_EQ(SinkOf(first).outcome().load_version, 3u);
  EXPECT_EQ(Snapshot().load_version, 3u);
  EXPECT_EQ(Snapshot().running, 1);
  rig().RunAll();
  EXPECT_EQ(SinkOf(second).outcome().load_version, 4u);
  EXPECT_EQ(rig().listener.load_changes(), 4);
  rig().engine->Drain();
  EXPECT_EQ(rig().listener.load_changes(), 5);
}

TEST_F(EngineTest, TheSnapshotPredictsSteps) {
  const auto took = [](int64_t sequences, int64_t tokens) {
    return microseconds(500 * sequences + 200 * tokens);
  };
  rig().runner.set_on_launch([&](const ModelBatch& batch) {
    rig().clock.Advance(took(static_cast<int64_t>(batch.sequences.size()), batch.num_tokens));
  });
  EXPECT_EQ(Snapshot().step_model, StepModel{});
  for (int i = 0; i < 20; ++i) {
    rig().Submit(MakeRequest(10 + 9 * i, 10 + i, 1000 * i));
    rig().Step();
  }
  rig().RunAll();
  ASSERT_GT(Snapshot().steps, 60u);
  StepShape shape;
  shape.sequences = 2;
  shape.tokens = 30;
  shape.context_tokens = 100;
  shape.chunk_attention = 29 * 50;
  EXPECT_NEAR(Snapshot().step_model.PredictUs(shape), 7000, 700);
}

TEST_F(EngineTest, TheListenerFollowsTheCache) {
  const Request request = MakeRequest(40, 3);
  rig().Submit(request);
  rig().Step();
  EXPECT_EQ(rig().listener.residency_changes(), 1);
  EXPECT_EQ(rig().listener.resident().size(), 8u) << "the blocks of a chunk";
  rig().RunAll();
  std::vector<TokenId> tokens = request.prompt;
  const auto hashes = rig().hasher.HashPrompt(request.cache_namespace, tokens);
  EXPECT_EQ(rig().listener.resident(), std::set<hash::BlockHash>(hashes.begin(), hashes.end()));
  EXPECT_EQ(rig().listener.residency_changes(), 2) << "the tokens drawn fill no block";
}

TEST_F(EngineTest, LiveTokensOfASharedPrefixCountOnce) {
  const Request first = MakeRequest(17, 30);
  const Request second = MakeRequest(17, 30);
  rig().Submit(first);
  rig().Step();
  rig().Submit(second);
  rig().Step();
  const EngineSnapshot snapshot = Snapshot();
  EXPECT_EQ(snapshot.running, 2);
  EXPECT_EQ(snapshot.referenced_blocks, 4 + 2);
  EXPECT_EQ(snapshot.live_tokens, 16 + 2 + 1);
}

// Runs a function in the callbacks.
class CallingSink final : public TokenSink {
 public:
  std::function<void()> on_tokens = [] {};
  std::function<void()> on_end = [] {};
  void OnTokens(int32_t, absl::Span<const TokenId>, absl::Span<const sampling::ScoredToken>) override {
    on_tokens();
  }
  void OnPromptScores(int32_t, absl::Span<const sampling::ScoredToken>) override {}
  void OnEnd(const Outcome&) override { on_end(); }
};

TEST_F(EngineTest, WhoHearsOfAnEndFindsItInTheSnapshotAndTheMetrics) {
  auto sink = std::make_shared<CallingSink>();
  bool ended = false;
  sink->on_end = [&] {
    ended = true;
    ExpectIdleAndClean();
    EXPECT_EQ(rig().metrics.ends.size(), 1u);
  };
  Request request = MakeRequest(10, 3);
  request.sink = sink;
  rig().Submit(request);
  rig().RunAll();
  EXPECT_TRUE(ended);
}

TEST_F(EngineTest, SinksMaySubmitAndCancel) {
  const Request second = MakeRequest(10, 2, 300);
  SequenceId id{};
  auto sink = std::make_shared<CallingSink>();
  sink->on_tokens = [&] { rig().engine->Cancel(id, EndReason::kStop); };
  sink->on_end = [&] { rig().Submit(second); };
  Request request = MakeRequest(10, 30);
  request.sink = sink;
  id = rig().Submit(request);
  rig().RunAll();
  EXPECT_EQ(rig().metrics.ends.front().first.completion_tokens, 1);
  EXPECT_EQ(SinkOf(second).tokens(), rig().Answer(second));
}

TEST_F(EngineTest, StepsTellWhatTheyComputed) {
  rig().Submit(MakeRequest(40, 3));
  rig().RunAll();
  const std::vector<StepStats>& steps = rig().metrics.steps;
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[0].prefill_tokens, 32);
  EXPECT_EQ(steps[0].queried_tokens, 40);
  EXPECT_EQ(steps[0].hit_tokens, 0);
  EXPECT_EQ(steps[1].prefill_tokens, 8);
  EXPECT_EQ(steps[2].prefill_tokens, 0);
  EXPECT_EQ(steps[2].decode_tokens, 1);
  EXPECT_EQ(steps[3].decode_tokens, 1);
  EXPECT_EQ(steps[3].sequences, 1);
}

TEST_F(EngineTest, HitsAreToldOnceAndInTheOutcome) {
  const Request first = MakeRequest(40, 3);
  rig().Submit(first);
  rig().RunAll();
  const Request second = MakeRequest(40, 3);
  rig().Submit(second);
  rig().RunAll();
  EXPECT_EQ(SinkOf(first).outcome().cached_tokens, 0);
  EXPECT_EQ(SinkOf(second).outcome().cached_tokens, 36);
  EXPECT_EQ(rig().metrics.steps[4].hit_tokens, 36);
  EXPECT_EQ(SinkOf(second).tokens(), SinkOf(first).tokens());
}

TEST_F(EngineTest, EvictionsAreTold) {
  EngineOptions options = SmallOptions();
  options.num_blocks = 8;
  options.context_length = 32;
  Start(options);
  rig().Submit(MakeRequest(24, 4, 1));
  rig().RunAll();
  rig().Submit(MakeRequest(24, 4, 300));
  rig().RunAll();
  int32_t evictions = 0;
  for (const StepStats& stats : rig().metrics.steps) evictions += stats.evictions;
  EXPECT_EQ(evictions, 5) << "two of the eight blocks held nothing, and the second takes seven";
}

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

TEST_F(EngineTest, PausesWhoseReaderTakesNoMoreAndGoesOnWhereItWas) {
  Request slow = MakeRequest(10, 30);
  const auto sink = std::make_shared<NarrowSink>(5);
  slow.sink = sink;
  const Request other = MakeRequest(10, 40, 500);
  const SequenceId id = rig().Submit(slow);
  rig().Submit(other);
  while (Snapshot().paused == 0) rig().Step();
  EXPECT_EQ(sink->tokens().size(), 5u);
  EXPECT_EQ(sink->pauses(), 1);
  EXPECT_EQ(Snapshot().running, 1) << "it gives up its seat";
  rig().RunAll();
  EXPECT_TRUE(SinkOf(other).ended()) << "and holds nobody up";
  EXPECT_EQ(Snapshot().referenced_blocks, 0) << "nor any memory";
  sink->Widen(100);
  rig().engine->Resume(id);
  rig().engine->Resume(id);  // said twice: nothing more happens
  rig().RunAll();
  EXPECT_EQ(sink->tokens(), rig().Answer(slow));
  EXPECT_EQ(sink->outcome().reason, EndReason::kLength);
  EXPECT_EQ(sink->outcome().preemptions, 0);
  EXPECT_EQ(sink->pauses(), 1);
  ExpectIdleAndClean();
}

TEST_F(EngineTest, AReaderThatStaysAwayTooLongLosesItsRequest) {
  EngineOptions options = SmallOptions();
  options.stall_limit = milliseconds(50);
  Start(options);
  Request slow = MakeRequest(10, 30);
  const auto sink = std::make_shared<NarrowSink>(1);
  slow.sink = sink;
  rig().Submit(slow);
  while (Snapshot().paused == 0) rig().Step();
  rig().clock.Advance(milliseconds(48));
  rig().Step();
  EXPECT_FALSE(sink->ended());
  rig().clock.Advance(milliseconds(2));
  rig().Step();
  ASSERT_TRUE(sink->ended());
  EXPECT_EQ(sink->outcome().reason, EndReason::kCancelled);
  EXPECT_EQ(ReasonOf(sink->outcome().status), "READER_STALLED");
  ExpectIdleAndClean();
}

TEST_F(EngineTest, ThePausedAreCancelledAndExpireLikeAnybody) {
  Request cancelled = MakeRequest(10, 30);
  cancelled.sink = std::make_shared<NarrowSink>(1);
  Request expired = MakeRequest(10, 30, 500);
  expired.sink = std::make_shared<NarrowSink>(1);
  expired.deadline = rig().clock.Now() + milliseconds(500);
  const SequenceId id = rig().Submit(cancelled);
  rig().Submit(expired);
  while (Snapshot().paused < 2) rig().Step();
  rig().engine->Cancel(id, EndReason::kCancelled);
  rig().Step();
  EXPECT_EQ(SinkOf(cancelled).outcome().reason, EndReason::kCancelled);
  rig().clock.Advance(milliseconds(500));
  rig().Step();
  EXPECT_EQ(SinkOf(expired).outcome().reason, EndReason::kDeadline);
  ExpectIdleAndClean();
}

TEST_F(EngineTest, WaitingForWorkSleepsPastNoPausedRequestsEnd) {
  EngineOptions options = SmallOptions();
  options.stall_limit = milliseconds(50);
  Start(options);
  Request slow = MakeRequest(10, 30);
  slow.sink = std::make_shared<NarrowSink>(1);
  rig().Submit(slow);
  while (Snapshot().paused == 0) rig().Step();
  rig().clock.Advance(milliseconds(50));
  EXPECT_TRUE(rig().engine->WaitForWork());
  rig().Step();
  EXPECT_TRUE(SinkOf(slow).ended());
}

TEST_F(EngineTest, TimesAreTakenFromTheClock) {
  rig().runner.set_on_launch([this](const ModelBatch&) { rig().clock.Advance(milliseconds(10)); });
  const Request request = MakeRequest(10, 3);
  rig().Submit(request);
  rig().clock.Advance(milliseconds(5));
  rig().RunAll();
  const Outcome outcome = SinkOf(request).outcome();
  EXPECT_EQ(outcome.queue, milliseconds(5));
  EXPECT_EQ(outcome.prefill, milliseconds(10));
  EXPECT_EQ(outcome.decode, milliseconds(22)) << "two steps, and the rig's own millisecond after each";
  EXPECT_THAT(rig().metrics.gaps, ElementsAre(milliseconds(11), milliseconds(11)));
  EXPECT_EQ(rig().metrics.steps[0].launch, milliseconds(10));
  EXPECT_EQ(rig().metrics.ends[0].second, milliseconds(37));
}

}  // namespace
}  // namespace qanat::engine
