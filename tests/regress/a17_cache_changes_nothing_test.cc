// A17: the prefix cache must not change the answer or its scores, least of all where prompts end at the edge
// of a block.
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

EngineOptions Options(bool prefix_cache) {
  EngineOptions options = SmallOptions();
  options.context_length = 1024;
  options.block_size = 16;
  options.prefix_cache = prefix_cache;
  return options;
}

Request Scored(int prompt) {
  Request request = EngineRig::MakeRequest(std::vector<TokenId>(prompt, 33), 20);
  request.sampling.temperature = 0;
  request.logprobs = 3;
  return request;
}

class A17CacheChangesNothingTest : public testing::TestWithParam<int> {};

// That no shared block is written is the engine's own check, at every step.
TEST_P(A17CacheChangesNothingTest, ColdWarmAndOffAnswerAlike) {
  const int prompt = GetParam();
  EngineRig on(Options(true));
  EngineRig off(Options(false));
  for (int i = 0; i < 3; ++i) {
    const Request warm = Scored(prompt);
    on.Submit(warm);
    const int64_t computed = on.runner.computed_tokens();
    on.Step();
    EXPECT_GE(on.runner.computed_tokens(), computed + 1) << "one token is left to compute";
    on.RunAll();
    const Request cold = Scored(prompt);
    off.Submit(cold);
    off.RunAll();
    EXPECT_EQ(EngineRig::SinkOf(warm).tokens(), on.Answer(warm));
    EXPECT_EQ(EngineRig::SinkOf(cold).tokens(), on.Answer(warm));
    EXPECT_EQ(EngineRig::SinkOf(warm).scores(), EngineRig::SinkOf(cold).scores());
    EXPECT_EQ(EngineRig::SinkOf(warm).outcome().cached_tokens, i == 0 ? 0 : (prompt - 1) / 16 * 16)
        << "full blocks only";
    EXPECT_EQ(EngineRig::SinkOf(cold).outcome().cached_tokens, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(PromptLengths, A17CacheChangesNothingTest, testing::Values(15, 16, 17, 32, 48, 500));

}  // namespace
}  // namespace qanat::engine
