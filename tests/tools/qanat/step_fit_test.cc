#include "tools/qanat/step_fit.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace qanat::tools {
namespace {

constexpr StepModel kDevice{500, 150, 9000, 220, 0.6, 0.03};

// Decodes of a changing batch, every fourth step with a chunk; `noise` is the deviation of what was measured.
std::vector<engine::MeasuredStep> MakeLog(uint32_t seed, int count, double noise) {
  std::mt19937 random(seed);
  const auto between = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  std::normal_distribution<double> factor(1, noise);
  std::vector<engine::MeasuredStep> steps;
  for (int i = 0; i < count; ++i) {
    StepShape shape;
    shape.sequences = shape.tokens = between(1, 40);
    shape.context_tokens = shape.sequences * between(50, 2000);
    if (i % 4 == 0) {
      const int64_t chunk = between(2, 400);
      const int64_t context = chunk + between(0, 2000);
      shape = {shape.sequences + 1, shape.tokens + chunk, shape.context_tokens + context, chunk * context};
    }
    const double us = kDevice.PredictUs(shape) * std::max(0.5, factor(random));
    steps.push_back({shape, Duration(static_cast<int64_t>(us * 1e3))});
  }
  return steps;
}

TEST(StepFitTest, RecoversTheDeviceFromNoisySteps) {
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    const StepFit fit = FitHeldOut(MakeLog(seed, 3000, 0.05));
    EXPECT_NEAR(fit.model.fixed_us + fit.model.weights_us, kDevice.fixed_us + kDevice.weights_us, 500);
    EXPECT_NEAR(fit.model.sequence_us, kDevice.sequence_us, 15);
    EXPECT_NEAR(fit.model.token_us, kDevice.token_us, 10);
    EXPECT_NEAR(fit.model.context_us, kDevice.context_us, 0.03);
    EXPECT_NEAR(fit.model.attention_us, kDevice.attention_us, 0.002);
    EXPECT_EQ(fit.steps, 3000u);
    EXPECT_EQ(fit.held_out, 600u);
    // What is left is the noise: its median is 0.67 deviations, its mean 0.80.
    EXPECT_NEAR(fit.median_error, 0.034, 0.006);
    EXPECT_NEAR(fit.mean_error, 0.040, 0.006);
  }
}

TEST(StepFitTest, ExactStepsLeaveNoError) {
  const StepFit fit = FitHeldOut(MakeLog(6, 1000, 0));
  EXPECT_LT(fit.mean_error, 0.002);
}

// What was disturbed now and then moves nothing.
TEST(StepFitTest, StepsThatSomethingElseHeldUpCountForLittle) {
  std::vector<engine::MeasuredStep> steps = MakeLog(7, 2000, 0.03);
  for (size_t i = 0; i < steps.size(); i += 50) steps[i].took *= 20;
  EXPECT_LT(FitHeldOut(steps).median_error, 0.03);
}

// A log whose truth is not of the form: faster with more sequences and more context.
TEST(StepFitTest, NoCoefficientIsNegative) {
  std::vector<engine::MeasuredStep> steps = MakeLog(8, 500, 0.05);
  for (engine::MeasuredStep& step : steps) {
    step.took = std::chrono::microseconds(
        std::max<int64_t>(100, 50000 - 900 * step.shape.sequences - step.shape.context_tokens / 10));
  }
  const StepModel model = FitHeldOut(steps).model;
  for (const double coefficient : {model.fixed_us, model.sequence_us, model.weights_us, model.token_us,
                                   model.context_us, model.attention_us}) {
    EXPECT_GE(coefficient, 0);
  }
  EXPECT_EQ(model.sequence_us, 0);
}

// The held out are every fifth stretch, of 40 steps here: what only they show is an error, and no part of the
// model behind it.
TEST(StepFitTest, TheHeldOutAreNotFitted) {
  std::vector<engine::MeasuredStep> steps = MakeLog(9, 1000, 0);
  for (size_t i = 0; i < steps.size(); ++i) {
    if (i / 40 % 5 == 4) steps[i].took *= 2;
  }
  const StepFit fit = FitHeldOut(steps);
  EXPECT_NEAR(fit.median_error, 0.5, 0.002);
  EXPECT_EQ(fit.held_out, 200u);
}

TEST(StepFitTest, NothingTeachesNothing) {
  EXPECT_EQ(FitHeldOut({}).model, StepModel{});
  const std::vector<engine::MeasuredStep> empty(100);
  EXPECT_EQ(FitHeldOut(empty).model, StepModel{});
  EXPECT_EQ(FitHeldOut(empty).steps, 0u);
}

}  // namespace
}  // namespace qanat::tools
