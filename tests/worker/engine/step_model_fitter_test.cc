#include "worker/engine/step_model_fitter.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "gtest/gtest.h"

namespace qanat::engine {
namespace {

// A worker's life: decodes of a batch that changes slowly, and in bursts prefill chunks beside it.
class Steps {
 public:
  explicit Steps(uint32_t seed) : random_(seed) {}

  StepShape Next(bool prefill) {
    batch_ = std::clamp<int64_t>(batch_ + Between(-2, 2), 1, 48);
    StepShape shape;
    shape.sequences = batch_;
    shape.tokens = batch_;
    const int64_t longest = Between(100, 3000);
    for (int64_t i = 0; i < batch_; ++i) shape.context_tokens += Between(50, longest);
    if (!prefill) return shape;
    const int64_t chunk = int64_t{1} << Between(4, 9);
    const int64_t context = chunk + Between(0, 3000);
    ++shape.sequences;
    shape.tokens += chunk;
    shape.context_tokens += context;
    shape.chunk_attention = chunk * context;
    return shape;
  }
  StepShape Next() { return Next(Between(0, 3) == 0); }

  // As measured: with noise, and now and then something else had the machine.
  Duration Measure(const StepModel& truth, const StepShape& shape, double outliers = 0) {
    std::normal_distribution<double> noise(1, 0.04);
    double us = truth.PredictUs(shape) * std::max(0.5, noise(random_));
    if (std::uniform_real_distribution<double>(0, 1)(random_) < outliers) us *= Between(3, 30);
    return Duration(static_cast<int64_t>(us * 1000));
  }
  int64_t Between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

 private:
  std::mt19937 random_;
  int64_t batch_ = 10;
};

void ExpectNonNegative(const StepModel& model) {
  for (const double coefficient : {model.fixed_us, model.sequence_us, model.weights_us, model.token_us,
                                   model.context_us, model.attention_us}) {
    ASSERT_GE(coefficient, 0);
    ASSERT_TRUE(std::isfinite(coefficient));
  }
}

// The mean of |predicted - true| / true over steps that the fit has not seen.
double MeanError(const StepModel& model, const StepModel& truth, Steps& steps) {
  double sum = 0;
  for (int i = 0; i < 500; ++i) {
    const StepShape shape = steps.Next();
    sum += std::abs(model.PredictUs(shape) / truth.PredictUs(shape) - 1);
  }
  return sum / 500;
}

constexpr StepModel kCpu{2500, 150, 9000, 220, 0.6, 0.03};
constexpr StepModel kGpu{300, 12, 2200, 9, 0.05, 0.0006};
constexpr StepModel kFlat{5000, 0, 0, 300, 0, 0};

TEST(StepModelFitterTest, SaysNothingBeforeStepsRan) {
  StepModelFitter fitter;
  EXPECT_EQ(fitter.model(), StepModel{});
  fitter.Add({}, std::chrono::seconds(1));
  for (int i = 0; i < 100; ++i) fitter.Add({1, 1, 1, 0}, Duration::zero());
  EXPECT_EQ(fitter.model(), StepModel{});
}

TEST(StepModelFitterTest, RecoversTheCoefficientsOfNoisySteps) {
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    Steps steps(seed);
    StepModelFitter fitter;
    for (int i = 0; i < 4000; ++i) {
      const StepShape shape = steps.Next();
      fitter.Add(shape, steps.Measure(kCpu, shape, 0.01));
    }
    const StepModel model = fitter.model();
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    EXPECT_NEAR(model.fixed_us + model.weights_us, kCpu.fixed_us + kCpu.weights_us, 1150);
    EXPECT_NEAR(model.sequence_us, kCpu.sequence_us, 15);
    EXPECT_NEAR(model.weights_us, kCpu.weights_us, 900);
    EXPECT_NEAR(model.token_us, kCpu.token_us, 22);
    EXPECT_NEAR(model.context_us, kCpu.context_us, 0.06);
    EXPECT_NEAR(model.attention_us, kCpu.attention_us, 0.003);
  }
}

TEST(StepModelFitterTest, PredictsStepsThatItHasNotSeen) {
  for (const StepModel& truth : {kCpu, kGpu, kFlat}) {
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      Steps steps(seed);
      StepModelFitter fitter;
      for (int i = 0; i < 3000; ++i) {
        const StepShape shape = steps.Next();
        fitter.Add(shape, steps.Measure(truth, shape, 0.02));
        ExpectNonNegative(fitter.model());
      }
      EXPECT_LT(MeanError(fitter.model(), truth, steps), 0.05) << truth.fixed_us << " seed " << seed;
    }
  }
}

TEST(StepModelFitterTest, DecodesForLongDoNotMakeItForgetPrefills) {
  Steps steps(3);
  StepModelFitter fitter;
  for (int i = 0; i < 2000; ++i) {
    const StepShape shape = steps.Next();
    fitter.Add(shape, steps.Measure(kCpu, shape));
  }
  for (int i = 0; i < 20000; ++i) {
    const StepShape shape = steps.Next(false);
    fitter.Add(shape, steps.Measure(kCpu, shape));
  }
  EXPECT_LT(MeanError(fitter.model(), kCpu, steps), 0.07);
}

TEST(StepModelFitterTest, WithDecodesAloneItPredictsDecodesAndBoundsTheToken) {
  Steps steps(4);
  StepModelFitter fitter;
  for (int i = 0; i < 2000; ++i) {
    StepShape shape = steps.Next(false);
    fitter.Add(shape, steps.Measure(kGpu, shape));
  }
  for (int i = 0; i < 100; ++i) {
    const StepShape shape = steps.Next(false);
    EXPECT_NEAR(fitter.model().PredictUs(shape) / kGpu.PredictUs(shape), 1, 0.1);
  }
  EXPECT_GT(fitter.model().token_us, 0);
}

TEST(StepModelFitterTest, FollowsAMachineThatBecomesSlower) {
  Steps steps(5);
  StepModelFitter fitter;
  StepModel slow = kCpu;
  for (double* coefficient : {&slow.fixed_us, &slow.sequence_us, &slow.weights_us, &slow.token_us,
                              &slow.context_us, &slow.attention_us}) {
    *coefficient *= 10;
  }
  for (int i = 0; i < 6000; ++i) {
    const StepShape shape = steps.Next();
    fitter.Add(shape, steps.Measure(i < 2000 ? kCpu : slow, shape));
  }
  EXPECT_LT(MeanError(fitter.model(), slow, steps), 0.2) << "what is rare is measured again late";
}

// Whatever is measured, the model is one.
TEST(StepModelFitterTest, NoCoefficientIsEverNegative) {
  std::mt19937 random(6);
  for (int run = 0; run < 50; ++run) {
    StepModelFitter fitter;
    for (int i = 0; i < 300; ++i) {
      StepShape shape;
      shape.sequences = 1 + random() % 3;
      shape.tokens = shape.sequences + (run % 2 == 0 ? 0 : random() % 600);
      shape.context_tokens = run % 3 == 0 ? shape.tokens : random() % 100000;
      shape.chunk_attention = shape.tokens * (random() % 2);
      fitter.Add(shape, Duration(1 + random() % 100'000'000));
      ExpectNonNegative(fitter.model());
      ASSERT_TRUE(std::isfinite(fitter.model().PredictUs(shape)));
    }
  }
}

}  // namespace
}  // namespace qanat::engine
