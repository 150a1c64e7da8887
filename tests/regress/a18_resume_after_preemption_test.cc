// A18: a preempted request is computed again from its prompt and its output, and no token is sent twice. Its
// penalties count the output alone, as if it had never been interrupted.
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

TEST(A18ResumeAfterPreemptionTest, EightRequestsInAPoolOfTwentyBlocksAnswerAsInABigOne) {
  EngineOptions options = SmallOptions();
  options.block_size = 16;
  options.num_blocks = 20;
  EngineRig tiny(options);
  options.num_blocks = 1000;
  EngineRig big(options);
  std::vector<Request> in_tiny;
  std::vector<Request> in_big;
  for (int i = 0; i < 8; ++i) {
    for (auto [rig, requests] : {std::pair(&tiny, &in_tiny), std::pair(&big, &in_big)}) {
      Request request = EngineRig::MakeRequest(EngineRig::Prompt(20, 100 * i), 100);
      auto rules = std::make_shared<sampling::LogitRules>();
      rules->presence_penalty = 0.5f;
      if (i % 2 == 1) rules->repetition_penalty = 1.2f;
      request.rules = std::move(rules);
      request.seed = 42 + static_cast<uint64_t>(i);
      rig->Submit(request);
      requests->push_back(request);
    }
  }
  tiny.RunAll();
  big.RunAll();
  int32_t preemptions = 0;
  for (int i = 0; i < 8; ++i) {
    // The sink aborts on a gap or a repeat.
    EXPECT_EQ(EngineRig::SinkOf(in_tiny[i]).tokens(), EngineRig::SinkOf(in_big[i]).tokens());
    EXPECT_EQ(EngineRig::SinkOf(in_tiny[i]).tokens(), tiny.Answer(in_tiny[i]));
    const Outcome outcome = EngineRig::SinkOf(in_tiny[i]).outcome();
    EXPECT_EQ(outcome.prompt_tokens, 20);
    EXPECT_EQ(outcome.completion_tokens, 100) << "counted once";
    EXPECT_LE(outcome.preemptions, 3);
    preemptions += outcome.preemptions;
    EXPECT_EQ(EngineRig::SinkOf(in_big[i]).outcome().preemptions, 0);
  }
  EXPECT_GT(preemptions, 0);
}

}  // namespace
}  // namespace qanat::engine
