// A21: after a mass abort every gauge is right at once, without new traffic, and the ends add up to what was
// accepted.
#include <map>

#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

TEST(A21GaugesAfterMassAbortTest, FiftyCancelledRequestsLeaveNothingInAnyGauge) {
  EngineRig rig(SmallOptions());
  std::vector<SequenceId> ids;
  for (int i = 0; i < 50; ++i) {
    ids.push_back(rig.Submit(EngineRig::MakeRequest(EngineRig::Prompt(5 + i % 30, 100 * i), 50)));
    if (i % 10 == 0) rig.Step();
  }
  ASSERT_GT(rig.engine->Snapshot().running, 0);
  ASSERT_GT(rig.engine->Snapshot().waiting, 0);
  for (const SequenceId id : ids) rig.engine->Cancel(id, EndReason::kCancelled);
  rig.Step();
  const EngineSnapshot snapshot = rig.engine->Snapshot();
  EXPECT_EQ(snapshot.running, 0);
  EXPECT_EQ(snapshot.waiting, 0);
  EXPECT_EQ(snapshot.paused, 0);
  EXPECT_EQ(snapshot.waiting_tokens, 0);
  EXPECT_EQ(snapshot.live_tokens, 0);
  EXPECT_EQ(snapshot.referenced_blocks, 0);
  std::map<EndReason, int> ends;
  for (const auto& [outcome, total] : rig.metrics.ends) ++ends[outcome.reason];
  EXPECT_EQ(ends[EndReason::kCancelled], 50);
  EXPECT_EQ(rig.metrics.ends.size(), 50u);
}

}  // namespace
}  // namespace qanat::engine
