// A19: aborted streams leak nothing, and the next call is served as on a fresh server.
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

// Steps until the first token.
int StepsToFirstToken(EngineRig& rig) {
  const Request request = EngineRig::MakeRequest(EngineRig::Prompt(50, 9000), 5);
  rig.Submit(request);
  int steps = 0;
  while (EngineRig::SinkOf(request).tokens().empty()) {
    rig.Step();
    ++steps;
  }
  rig.RunAll();
  EXPECT_EQ(EngineRig::SinkOf(request).tokens(), rig.Answer(request));
  return steps;
}

TEST(A19AbortedStreamsTest, FiveHundredCutAfterTheFirstTokenLeaveNothingBehind) {
  EngineRig fresh(SmallOptions());
  EngineRig rig(SmallOptions());
  for (int cut = 0; cut < 500;) {
    std::vector<std::pair<SequenceId, Request>> streams;
    for (int i = 0; i < 20 && cut < 500; ++i, ++cut) {
      const Request request = EngineRig::MakeRequest(EngineRig::Prompt(1 + cut % 40, cut), 100);
      streams.emplace_back(rig.Submit(request), request);
    }
    while (!streams.empty()) {
      rig.Step();
      std::erase_if(streams, [&rig](const auto& stream) {
        if (EngineRig::SinkOf(stream.second).tokens().empty()) return false;
        rig.engine->Cancel(stream.first, EndReason::kCancelled);
        return true;
      });
    }
    rig.Step();  // the last cancellations
    const EngineSnapshot snapshot = rig.engine->Snapshot();
    ASSERT_EQ(snapshot.running + snapshot.waiting, 0);
    ASSERT_EQ(snapshot.referenced_blocks, 0);
  }
  EXPECT_EQ(rig.metrics.ends.size(), 500u);
  EXPECT_EQ(StepsToFirstToken(rig), StepsToFirstToken(fresh));
}

}  // namespace
}  // namespace qanat::engine
