// The simulator itself: it replays exactly, it finds a planted fault and boils it down.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/worker/engine/simulation/shrink.h"
#include "tests/worker/engine/simulation/simulate.h"

namespace qanat::engine::simulation {
namespace {

// A device that draws another token for the last of three sequences or more.
class FaultyRunner final : public ModelRunner {
 public:
  explicit FaultyRunner(ModelRunner& model) : model_(model) {}
  int depth() const override { return model_.depth(); }
  Handle Launch(const ModelBatch& batch) override { return model_.Launch(batch); }
  StepOutput Collect(Handle handle) override {
    StepOutput output = model_.Collect(handle);
    SequenceOutput& last = output.sequences.back();
    if (output.sequences.size() >= 3 && last.kind == SequenceOutput::Kind::kToken) {
      last.token = (last.token + 1) % 1000;
    }
    return output;
  }

 private:
  ModelRunner& model_;
};

// Each request with one choice, and nothing scored.
History MakePlainHistory(uint64_t seed) {
  History history = MakeHistory(seed);
  for (SimRequest& request : history.requests) {
    request.choices = 1;
    request.logprobs = request.prompt_logprobs = false;
  }
  return history;
}

std::optional<std::string> SimulateFaulty(const History& history) {
  return RunIsolated(
      [&] { Simulate(history, [](ModelRunner& model) { return std::make_unique<FaultyRunner>(model); }); });
}

TEST(SimulationTest, AHistoryReplaysExactly) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Tally first = Simulate(MakeHistory(seed));
    EXPECT_EQ(Simulate(MakeHistory(seed)).trace, first.trace) << "seed " << seed;
    EXPECT_NE(Simulate(MakeHistory(seed + 1)).trace, first.trace) << "seed " << seed;
  }
}

// What "alone" means is no invention of the fake: an engine with room for everything gives it, too.
TEST(SimulationTest, AloneOnABigPoolARequestGetsTheModelsAnswer) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    History history = MakePlainHistory(seed);
    history.options.num_blocks = 256;
    history.options.speculation = false;
    history.options.prefix_cache = false;
    history.requests.resize(1);
    history.requests[0].deadline_ms = 0;
    history.events = {{0, SimEvent::Kind::kSubmit, 0}};
    const Tally tally = Simulate(history);
    EXPECT_EQ(tally.complete, 1);
    EXPECT_EQ(tally.preemptions + tally.hit_tokens, 0);
  }
}

TEST(SimulationTest, FindsAPlantedFaultAndBoilsItDown) {
  uint64_t seed = 0;
  while (!SimulateFaulty(MakePlainHistory(seed)).has_value()) ASSERT_LT(++seed, 50u);
  const History smallest = Shrink(MakePlainHistory(seed), SimulateFaulty);
  const std::string described = Describe(smallest);
  // Three sequences beside each other are what it takes, and nothing but their submission.
  EXPECT_EQ(smallest.requests.size(), 3u) << described;
  EXPECT_EQ(smallest.events.size(), 3u) << described;
  const std::optional<std::string> words = SimulateFaulty(smallest);
  ASSERT_TRUE(words.has_value());
  EXPECT_NE(words->find("depends on who else is served"), std::string::npos) << *words;
  EXPECT_FALSE(RunIsolated([&] { Simulate(smallest); }).has_value()) << "without the fault it is well";
}

}  // namespace
}  // namespace qanat::engine::simulation
