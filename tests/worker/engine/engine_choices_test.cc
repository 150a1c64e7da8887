// n choices of one prompt: n sequences that share it.
#include <algorithm>
#include <chrono>
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

// An engine that takes a token to last ten seconds.
void TeachThatTokensAreSlow(EngineRig& rig) {
  const Request request = MakeChoices(4, 4, 1);
  rig.Submit(request);
  while (rig.Step()) rig.clock.Advance(std::chrono::seconds(10));
}

// The estimate is wrong, and only an answer can correct it.
TEST(EngineChoicesTest, ARequestIsNotGivenUpForTheSakeOfItsOwnChoices) {
  for (const int n : {2, 3}) {
    EngineRig rig(SmallOptions());
    TeachThatTokensAreSlow(rig);
    Request request = MakeChoices(100, 4, n);
    request.deadline = rig.clock.Now() + std::chrono::seconds(5);
    rig.Submit(request);
    rig.RunAll();
    for (int choice = 0; choice < n; ++choice) {
      EXPECT_EQ(SinkOf(request, choice).outcome().reason, EndReason::kLength) << choice << " of " << n;
    }
  }
}

TEST(EngineChoicesTest, AChoiceIsNotGivenUpOnceTheFirstRuns) {
  EngineRig rig(SmallOptions());
  TeachThatTokensAreSlow(rig);
  Request request = MakeChoices(100, 4, 3);
  request.deadline = rig.clock.Now() + std::chrono::seconds(5);
  rig.Submit(request);
  rig.Step();
  ASSERT_EQ(rig.engine->Snapshot().running, 1);
  for (int i = 1; i <= 20; ++i) {
    Request other = MakeChoices(100, 4, 1);
    std::fill(other.prompt.begin(), other.prompt.end(), i);
    rig.Submit(other);
  }
  rig.RunAll();
  for (int choice = 0; choice < 3; ++choice) {
    EXPECT_EQ(SinkOf(request, choice).outcome().reason, EndReason::kLength) << choice;
  }
}

TEST(EngineChoicesTest, ALateRequestIsGivenUpAsAWholeWhileAnotherWaits) {
  EngineOptions options = SmallOptions();
  options.max_seqs = 1;
  EngineRig rig(options);
  TeachThatTokensAreSlow(rig);
  const Request running = MakeChoices(10, 40, 1);
  rig.Submit(running);
  rig.Step();
  Request late = MakeChoices(20, 4, 2);
  late.deadline = rig.clock.Now() + std::chrono::seconds(5);
  const Request other = MakeChoices(30, 4, 1);
  rig.Submit(late);
  rig.Submit(other);
  rig.Step();
  for (int choice = 0; choice < 2; ++choice) {
    ASSERT_TRUE(SinkOf(late, choice).ended()) << choice;
    EXPECT_EQ(SinkOf(late, choice).outcome().reason, EndReason::kDeadline);
    EXPECT_EQ(ReasonOf(SinkOf(late, choice).outcome().status), "DEADLINE");
  }
  rig.RunAll();
  EXPECT_EQ(SinkOf(other, 0).outcome().reason, EndReason::kLength);
}

}  // namespace
}  // namespace qanat::engine
