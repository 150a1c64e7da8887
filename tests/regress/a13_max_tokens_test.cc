// A13: max_tokens 1, 2, 3 give exactly so many tokens, and usage says the same; 0 is refused.
#include "common/base/error.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

TEST(A13MaxTokensTest, ExactlySoManyTokensAreDeliveredAndCounted) {
  EngineRig rig(SmallOptions());
  for (const int max_tokens : {1, 2, 3, 17}) {
    const Request request = EngineRig::MakeRequest(EngineRig::Prompt(9), max_tokens);
    rig.Submit(request);
    rig.RunAll();
    const Outcome outcome = EngineRig::SinkOf(request).outcome();
    EXPECT_EQ(EngineRig::SinkOf(request).tokens().size(), static_cast<size_t>(max_tokens));
    EXPECT_EQ(outcome.completion_tokens, max_tokens);
    EXPECT_EQ(outcome.prompt_tokens, 9);
    EXPECT_EQ(outcome.reason, EndReason::kLength);
  }
}

TEST(A13MaxTokensTest, ZeroIsRefusedByName) {
  EngineRig rig(SmallOptions());
  const absl::Status status = rig.engine->Submit(EngineRig::MakeRequest(EngineRig::Prompt(9), 0)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "stopping.max_tokens");
  EXPECT_FALSE(rig.Step());
}

}  // namespace
}  // namespace qanat::engine
