// A14: an empty prompt and prompts about as long as the context.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int32_t kContext = 8192;

EngineOptions LargeOptions() {
  EngineOptions options = SmallOptions();
  options.context_length = kContext;
  options.block_size = 16;
  options.num_blocks = kContext / 16;
  options.max_batch_tokens = 4096;
  options.chunk_tokens = 4096;
  options.queue_tokens = 10 * kContext;
  return options;
}

TEST(A14EdgeOfTheContextTest, APromptOfContextMinusOneYieldsOneToken) {
  EngineRig rig(LargeOptions());
  for (const int prompt : {kContext - 2, kContext - 1}) {
    const Request request = EngineRig::MakeRequest(std::vector<TokenId>(prompt, 33), 5);
    rig.Submit(request);
    rig.RunAll();
    EXPECT_EQ(EngineRig::SinkOf(request).outcome().reason, EndReason::kLength);
    EXPECT_EQ(EngineRig::SinkOf(request).tokens(), rig.Answer(request));
    EXPECT_EQ(EngineRig::SinkOf(request).outcome().completion_tokens, kContext - prompt);
  }
  EXPECT_EQ(rig.engine->Snapshot().referenced_blocks, 0);
}

TEST(A14EdgeOfTheContextTest, LongerOnesAreRefusedWithBothNumbersAndTheEngineServesOn) {
  EngineRig rig(LargeOptions());
  for (const int prompt : {kContext, kContext + 1}) {
    const Request request = EngineRig::MakeRequest(std::vector<TokenId>(prompt, 33), 5);
    const absl::Status status = rig.engine->Submit(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(std::to_string(prompt)), HasSubstr("8192 ")));
  }
  EXPECT_EQ(rig.engine->Submit(EngineRig::MakeRequest({}, 5)).status().code(),
            absl::StatusCode::kInvalidArgument);
  const Request good = EngineRig::MakeRequest(EngineRig::Prompt(9), 5);
  rig.Submit(good);
  rig.RunAll();
  EXPECT_EQ(EngineRig::SinkOf(good).tokens(), rig.Answer(good));
}

}  // namespace
}  // namespace qanat::engine
