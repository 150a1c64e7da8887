#include "worker/engine/warm_step.h"

#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

TEST(WarmStepTest, ComputesATokenThatTheEngineKnowsNothingOf) {
  EngineRig rig(SmallOptions());
  EXPECT_TRUE(WarmUp(rig.runner).ok());
  EXPECT_EQ(rig.runner.computed_tokens(), 1);
  const EngineSnapshot snapshot = rig.engine->Snapshot();
  EXPECT_EQ(snapshot.steps, 0u);
  EXPECT_EQ(snapshot.cached_blocks, 0);
  EXPECT_TRUE(rig.metrics.steps.empty() && rig.metrics.ends.empty());
  const Request request = EngineRig::MakeRequest(EngineRig::Prompt(10), 5);
  rig.Submit(request);
  rig.RunAll();
  EXPECT_EQ(EngineRig::SinkOf(request).tokens(), rig.Answer(request));
}

TEST(WarmStepTest, ADeviceThatComputesNothingOfUseIsFound) {
  struct Broken final : ModelRunner {
    Handle Launch(const ModelBatch& batch) override {
      EXPECT_EQ(batch.num_tokens, 1);
      return 1;
    }
    StepOutput Collect(Handle) override { return {{{.kind = SequenceOutput::Kind::kFailed}}}; }
  } broken;
  EXPECT_TRUE(absl::IsInternal(WarmUp(broken)));
}

}  // namespace
}  // namespace qanat::engine
