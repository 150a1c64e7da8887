// n choices of one prompt: n sequences that share it.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

Request MakeChoices(int prompt, int max_tokens, int n) {
  Request request = EngineRig::MakeRequest(EngineRig::Prompt(prompt), max_tokens);
  request.sampling.temperature = 1;
  request.seed = 7;
  for (int i = 1; i < n; ++i) request.other_sinks.push_back(std::make_shared<fakes::RecordingSink>());
  return request;
}

fakes::RecordingSink& SinkOf(const Request& request, int choice) {
  return static_cast<fakes::RecordingSink&>(*(choice == 0 ? request.sink : request.other_sinks[choice - 1]));
}

std::vector<TokenId> Expected(const EngineRig& rig, const Request& request, int choice) {
  return fakes::FakeModelRunner::Answer(request, rig.options.context_length, 1000,
                                        static_cast<uint32_t>(choice));
}

TEST(EngineChoicesTest, EachIsDrawnByItsOwnKeyAndTheFirstIsTheOnlyOnesAnswer) {
  EngineRig rig(SmallOptions());
  const Request request = MakeChoices(21, 12, 4);
  rig.Submit(request);
  rig.RunAll();
  for (int choice = 0; choice < 4; ++choice) {
    EXPECT_EQ(SinkOf(request, choice).tokens(), Expected(rig, request, choice)) << choice;
    EXPECT_EQ(SinkOf(request, choice).outcome().reason, EndReason::kLength);
  }
  EXPECT_NE(SinkOf(request, 0).tokens(), SinkOf(request, 1).tokens());
  const Request alone = MakeChoices(21, 12, 1);
  rig.Submit(alone);
  rig.RunAll();
  EXPECT_EQ(SinkOf(alone, 0).tokens(), SinkOf(request, 0).tokens());
}

TEST(EngineChoicesTest, ThePromptIsComputedOnceAndTheOthersWaitForIt) {
  EngineOptions options = SmallOptions();
  EngineRig rig(options);
  const Request request = MakeChoices(100, 3, 4);  // four steps of prompt
  rig.Submit(request);
  while (SinkOf(request, 0).tokens().empty()) {
    rig.Step();
    if (!SinkOf(request, 0).tokens().empty()) break;
    EXPECT_EQ(rig.engine->Snapshot().running, 1) << "the others hold no seat";
    EXPECT_EQ(rig.engine->Snapshot().waiting, 3);
  }
  rig.RunAll();
  // 96 tokens are shared; the last 4 of the prompt are computed for each, and what was drawn but the last.
  EXPECT_EQ(rig.runner.computed_tokens(), 100 + 3 * 4 + 4 * 2);
  EXPECT_EQ(SinkOf(request, 0).outcome().cached_tokens, 0);
  EXPECT_EQ(SinkOf(request, 3).outcome().cached_tokens, 96);
}

TEST(EngineChoicesTest, BypassAndPromptScoresBindTheFirst) {
  EngineRig rig(SmallOptions());
  for (int i = 0; i < 2; ++i) {
    Request request = MakeChoices(41, 2, 3);
    request.bypass_prefix_cache = i == 0;
    request.prompt_logprobs = 1;
    rig.Submit(request);
    rig.RunAll();
    EXPECT_EQ(SinkOf(request, 0).outcome().cached_tokens, 0);
    EXPECT_EQ(SinkOf(request, 0).prompt_scores().size(), 40u);
    for (int choice : {1, 2}) {
      EXPECT_EQ(SinkOf(request, choice).outcome().cached_tokens, 40);
      EXPECT_TRUE(SinkOf(request, choice).prompt_scores().empty());
    }
  }
}

TEST(EngineChoicesTest, TheOthersGoOnWhenTheFirstEndsBeforeItsPrompt) {
  for (const bool fails : {true, false}) {
    EngineRig rig(SmallOptions());
    const Request request = MakeChoices(100, 3, 3);
    const SequenceId id = rig.Submit(request);
    rig.Step();
    if (fails) {
      rig.runner.FailNextRowOf(id);
    } else {
      rig.engine->Cancel(id, EndReason::kCancelled);
    }
    rig.RunAll();
    EXPECT_EQ(SinkOf(request, 0).outcome().reason, fails ? EndReason::kError : EndReason::kCancelled);
    for (int choice : {1, 2}) EXPECT_EQ(SinkOf(request, choice).tokens(), Expected(rig, request, choice));
  }
}

TEST(EngineChoicesTest, EachEndsByItself) {
  EngineRig rig(SmallOptions());
  const Request request = MakeChoices(9, 50, 3);
  const SequenceId id = rig.Submit(request);
  while (SinkOf(request, 2).tokens().size() < 3) rig.Step();
  rig.engine->Cancel(SequenceId{ToInt(id) + 1}, EndReason::kStop);
  rig.RunAll();
  EXPECT_EQ(SinkOf(request, 1).outcome().reason, EndReason::kStop);
  EXPECT_LT(SinkOf(request, 1).tokens().size(), 50u);
  EXPECT_EQ(SinkOf(request, 0).tokens().size(), 50u);
  EXPECT_EQ(SinkOf(request, 2).tokens().size(), 50u);
}

TEST(EngineChoicesTest, WithoutACacheEachComputesItsOwnPrompt) {
  EngineOptions options = SmallOptions();
  options.prefix_cache = false;
  EngineRig rig(options);
  const Request request = MakeChoices(21, 5, 3);
  rig.Submit(request);
  rig.RunAll();
  for (int choice = 0; choice < 3; ++choice) {
    EXPECT_EQ(SinkOf(request, choice).tokens(), Expected(rig, request, choice));
  }
}

TEST(EngineChoicesTest, TheDoorCountsThePromptOnceAndATailForEach) {
  EngineOptions options = SmallOptions();
  options.num_blocks = 8 + 3 * 4;  // of 4 tokens
  EngineRig rig(options);
  // 33 tokens share 8 blocks; each choice has 4 more.
  const Request fits = MakeChoices(33, 15, 3);
  rig.Submit(fits);
  EXPECT_EQ(rig.engine->Snapshot().waiting, 1) << "one request";
  const absl::Status status = rig.engine->Submit(MakeChoices(33, 16, 3)).status();
  EXPECT_EQ(ReasonOf(status), "NEVER_FITS");
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("23"));
  EXPECT_EQ(ReasonOf(rig.engine->Submit(MakeChoices(33, 15, 4)).status()), "NEVER_FITS");
  rig.RunAll();
  for (int choice = 0; choice < 3; ++choice) {
    EXPECT_EQ(SinkOf(fits, choice).tokens(), Expected(rig, fits, choice));
  }
  EXPECT_EQ(rig.engine->Snapshot().waiting, 0);
}

}  // namespace
}  // namespace qanat::engine
