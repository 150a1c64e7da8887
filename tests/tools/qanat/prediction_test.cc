#include "tools/qanat/prediction.h"

#include "common/base/virtual_clock.h"
#include "gtest/gtest.h"
#include "tools/qanat/random_tokens.h"
#include "worker/sim/sim_model_runner.h"

namespace qanat::tools {
namespace {

constexpr StepModel kDevice{700, 90, 1600, 350, 0.4, 0.02};
constexpr int32_t kVocabulary = 2000;

engine::EngineOptions Options() {
  engine::EngineOptions options;
  options.context_length = 8192;
  options.num_blocks = 1024;
  options.speculation = false;
  return options;
}

// A device whose steps take now a little more, now a little less than the formula says.
class NoisyDevice final : public engine::ModelRunner {
 public:
  NoisyDevice(VirtualClock& clock, double noise)
      : clock_(clock), noise_(noise), sim_({.device = kDevice, .vocabulary = kVocabulary}, clock) {}
  Handle Launch(const engine::ModelBatch& batch) override {
    clock_.Advance(Duration(static_cast<int64_t>(kDevice.PredictUs(engine::ShapeOf(batch)) * noise_ * 2 *
                                                 random_.Uniform() * 1e3)));
    return sim_.Launch(batch);
  }
  engine::StepOutput Collect(Handle handle) override { return sim_.Collect(handle); }

 private:
  VirtualClock& clock_;
  const double noise_;
  RandomTokens random_{1, 1};
  sim::SimModelRunner sim_;
};

TEST(PredictionTest, ADeviceOfTheModelsFormIsPredicted) {
  VirtualClock clock;
  NoisyDevice device(clock, 0.05);
  const auto prediction = PredictRuns(Options(), device, clock, kVocabulary, {.rounds = 1});
  ASSERT_TRUE(prediction.ok()) << prediction.status();
  EXPECT_LT(prediction->fit.median_error, 0.04);
  EXPECT_GT(prediction->fit.steps, 500u);
  EXPECT_EQ(prediction->fit.steps, prediction->steps.size());
  ASSERT_EQ(prediction->runs.size(), 3u);
  for (const PredictedRun& run : prediction->runs) {
    EXPECT_LT(run.worst_error(), 0.08) << run.workload;
    EXPECT_GT(run.measured.tokens_per_second, 0) << run.workload;
    EXPECT_GT(run.measured.ttft_p90, run.measured.ttft_p50) << run.workload;
  }
}

TEST(PredictionTest, TheWorstOfFourErrorsIsReported) {
  const PredictedRun run{"x", {100, 10, 20, 3}, {100, 8, 20, 4}};
  EXPECT_DOUBLE_EQ(run.worst_error(), 0.25);
}

TEST(PredictionTest, FiguresAreOfTheRequestsThatWereServed) {
  using std::chrono::milliseconds;
  WorkloadResult result;
  result.requests = {{.drawn = {milliseconds(10), milliseconds(12), milliseconds(30)}, .prompt_tokens = 5},
                     {.arrival = milliseconds(5), .drawn = {}, .prompt_tokens = 90},  // refused
                     {.drawn = {milliseconds(20)}, .prompt_tokens = 7}};
  result.span = milliseconds(500);
  const RunFigures figures = FiguresOf(result);
  EXPECT_DOUBLE_EQ(figures.tokens_per_second, 32);
  EXPECT_DOUBLE_EQ(figures.ttft_p50, 10);
  EXPECT_DOUBLE_EQ(figures.ttft_p90, 20);
  EXPECT_DOUBLE_EQ(figures.tpot_p50, 10);
}

}  // namespace
}  // namespace qanat::tools
