// A25: a hundred readers that stop reading cost bounded memory and nobody's pace.
#include <memory>

#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

// Reads one token and sleeps.
class Sleeper final : public fakes::RecordingSink {
 public:
  int32_t Room() const override { return tokens().empty() ? 1 : 0; }
};

int StepsOf(EngineRig& rig, const Request& request) {
  rig.Submit(request);
  int steps = 0;
  for (; !EngineRig::SinkOf(request).ended(); ++steps) rig.Step();
  return steps;
}

TEST(A25SlowReadersTest, AHundredSleepersHoldNeitherSeatsNorBlocksNorAnybodyUp) {
  EngineOptions options = SmallOptions();
  options.queue_requests = 200;
  EngineRig rig(options);
  std::vector<std::shared_ptr<Sleeper>> sleepers;
  for (int i = 0; i < 100; ++i) {
    Request request = EngineRig::MakeRequest(EngineRig::Prompt(10, 100 * i), 60);
    sleepers.push_back(std::make_shared<Sleeper>());
    request.sink = sleepers.back();
    rig.Submit(request);
  }
  rig.RunAll();
  const EngineSnapshot snapshot = rig.engine->Snapshot();
  EXPECT_EQ(snapshot.paused, 100);
  EXPECT_EQ(snapshot.running + snapshot.waiting, 0);
  EXPECT_EQ(snapshot.referenced_blocks, 0);
  for (const auto& sleeper : sleepers) EXPECT_EQ(sleeper->tokens().size(), 1u) << "computed for nobody";

  EngineRig fresh(options);
  const Request fast = EngineRig::MakeRequest(EngineRig::Prompt(10, 90000), 60);
  const Request alone = EngineRig::MakeRequest(EngineRig::Prompt(10, 90000), 60);
  EXPECT_EQ(StepsOf(rig, fast), StepsOf(fresh, alone));
  EXPECT_EQ(EngineRig::SinkOf(fast).tokens(), EngineRig::SinkOf(alone).tokens());
}

}  // namespace
}  // namespace qanat::engine
