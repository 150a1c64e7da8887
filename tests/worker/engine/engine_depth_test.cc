// A device that takes the next step before the last is collected.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

using ::testing::ElementsAre;

EngineOptions WithoutDrafts() {
  EngineOptions options = SmallOptions();
  options.speculation = false;
  return options;
}

TEST(EngineDepthTest, TheNextStepIsLaunchedBeforeTheLastIsCollected) {
  EngineRig rig(WithoutDrafts(), 2);
  std::vector<std::string> rows;
  rig.runner.set_on_launch([&](const ModelBatch& batch) {
    rows.push_back(batch.sequences[0].tokens[0] == kDrawnBefore ? "follows" : "known");
  });
  const Request request = EngineRig::MakeRequest(EngineRig::Prompt(10), 4);
  rig.Submit(request);
  rig.Step();
  EXPECT_TRUE(EngineRig::SinkOf(request).tokens().empty()) << "launched, not collected";
  for (size_t tokens = 1; tokens <= 4; ++tokens) {
    rig.Step();
    EXPECT_EQ(EngineRig::SinkOf(request).tokens().size(), tokens) << "each further step brings one";
  }
  EXPECT_FALSE(rig.Step());
  // The last one is known to be the last.
  EXPECT_THAT(rows, ElementsAre("known", "follows", "follows", "follows"));
  EXPECT_EQ(EngineRig::SinkOf(request).tokens(), rig.Answer(request));
}

TEST(EngineDepthTest, WhatIsInFlightBehindAnEndTokenIsDropped) {
  EngineRig rig(WithoutDrafts(), 2);
  Request request = EngineRig::MakeRequest(EngineRig::Prompt(10), 20);
  request.end_tokens = {rig.Answer(request)[2]};
  rig.Submit(request);
  rig.RunAll();
  EXPECT_EQ(EngineRig::SinkOf(request).tokens(), rig.Answer(request));
  EXPECT_EQ(EngineRig::SinkOf(request).outcome().completion_tokens, 3);
  EXPECT_EQ(rig.engine->Snapshot().referenced_blocks, 0);
}

TEST(EngineDepthTest, ALaterStepHitsWhatAStepInFlightComputes) {
  EngineOptions options = WithoutDrafts();
  EngineRig rig(options, 2);
  const Request first = EngineRig::MakeRequest(EngineRig::Prompt(21), 3);
  const Request second = EngineRig::MakeRequest(EngineRig::Prompt(21), 3);
  rig.Submit(first);
  rig.Step();  // all of the first's prompt is in flight
  rig.Submit(second);
  EXPECT_EQ(rig.listener.residency_changes(), 0);
  rig.Step();
  EXPECT_EQ(rig.runner.pending_reads(), 1);
  EXPECT_EQ(rig.listener.resident().size(), 5u) << "told when the first step is committed";
  rig.RunAll();
  EXPECT_EQ(EngineRig::SinkOf(second).outcome().cached_tokens, 20);
  EXPECT_EQ(EngineRig::SinkOf(second).tokens(), rig.Answer(second));
  EXPECT_EQ(rig.runner.computed_tokens(), 21 + 1 + 2 * 2);
}

TEST(EngineDepthTest, WhoHitABlockThatCameToNothingStartsOver) {
  EngineRig rig(WithoutDrafts(), 2);
  const Request first = EngineRig::MakeRequest(EngineRig::Prompt(21), 3);
  const Request second = EngineRig::MakeRequest(EngineRig::Prompt(23), 3);
  rig.runner.FailNextRowOf(rig.Submit(first));
  rig.Step();
  rig.Submit(second);
  rig.Step();
  EXPECT_EQ(EngineRig::SinkOf(first).outcome().reason, EndReason::kError);
  EXPECT_TRUE(rig.listener.resident().empty()) << "nobody hears of blocks that hold nothing";
  EXPECT_EQ(rig.engine->Snapshot().waiting, 1) << "the second waits again";
  rig.RunAll();
  EXPECT_EQ(EngineRig::SinkOf(second).tokens(), rig.Answer(second));
  EXPECT_EQ(EngineRig::SinkOf(second).outcome().preemptions, 0) << "not for want of blocks";
}

// Blocks of one that ends come back a step later: whoever needs them sits a step out, and nobody is
// preempted.
TEST(EngineDepthTest, WhoLacksABlockThatIsComingBackSitsOut) {
  EngineOptions options = WithoutDrafts();
  options.num_blocks = 6;
  options.context_length = 24;
  options.prefix_cache = false;
  EngineRig rig(options, 2);
  const Request leaving = EngineRig::MakeRequest(EngineRig::Prompt(8), 16);
  const Request staying = EngineRig::MakeRequest(EngineRig::Prompt(8, 500), 16);
  const SequenceId id = rig.Submit(leaving);
  rig.Submit(staying);
  while (rig.engine->Snapshot().free_blocks > 0) rig.Step();
  rig.engine->Cancel(id, EndReason::kCancelled);
  rig.RunAll();
  EXPECT_EQ(EngineRig::SinkOf(staying).tokens(), rig.Answer(staying));
  int32_t preemptions = 0;
  for (const StepStats& stats : rig.metrics.steps) preemptions += stats.preemptions;
  EXPECT_EQ(preemptions, 0);
}

// The first sits a step out, the second lacks a block and preempts itself: nobody is left to run in it.
TEST(EngineDepthTest, APreemptionIsToldAlsoWhereItLeavesNoStep) {
  EngineOptions options = WithoutDrafts();
  options.num_blocks = 6;
  options.context_length = 16;
  options.prefix_cache = false;
  EngineRig rig(options, 2);
  auto rules = std::make_shared<sampling::LogitRules>();
  rules->frequency_penalty = 0.5f;
  Request first = EngineRig::MakeRequest(EngineRig::Prompt(8), 8);
  first.rules = rules;
  const Request second = EngineRig::MakeRequest(EngineRig::Prompt(8, 500), 8);
  rig.Submit(first);
  rig.Submit(second);
  rig.RunAll();
  ASSERT_EQ(EngineRig::SinkOf(second).outcome().preemptions, 1);
  int32_t preemptions = 0;
  for (const StepStats& stats : rig.metrics.steps) preemptions += stats.preemptions;
  EXPECT_EQ(preemptions, 1);
}

// Drafts begin with the last token, so while few decode a step waits for the one before; the bytes are equal.
TEST(EngineDepthTest, DraftsAreMadeWhileFewDecode) {
  EngineRig rig(SmallOptions(), 2, 2);
  const Request request = EngineRig::MakeRequest(EngineRig::Prompt(8, 0), 60);
  rig.Submit(request);
  rig.RunAll();
  EXPECT_EQ(EngineRig::SinkOf(request).tokens(), rig.Answer(request));
  int32_t accepted = 0;
  for (const StepStats& stats : rig.metrics.steps) accepted += stats.accepted_drafts;
  EXPECT_GT(accepted, 0);
}

TEST(EngineDepthTest, AnEngineMayDieWithStepsInFlight) {
  EngineRig rig(WithoutDrafts(), 2);
  const Request request = EngineRig::MakeRequest(EngineRig::Prompt(21), 30);
  rig.Submit(request);
  for (int i = 0; i < 4; ++i) rig.Step();
  rig.engine.reset();
  EXPECT_EQ(EngineRig::SinkOf(request).outcome().reason, EndReason::kCancelled);
}

}  // namespace
}  // namespace qanat::engine
