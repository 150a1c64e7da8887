// Learns from the steps that ran how long the next ones will take.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/base/clock.h"
#include "common/base/step_model.h"

namespace qanat::engine {

// What: fits StepModel to measured steps: least squares of the relative error, no coefficient below 0. Keeps
// the last steps of each size and context (kPerClass), so that an hour of decodes does not make it forget
// what a prefill costs; an older step weighs less (kHalfLife), one that took far longer than predicted counts
// for little. docs/engine.md, "Step model". Owns at most kSizes * kContexts * kPerClass samples. Threads: the
// engine thread. Errors: none; before kRefitEvery steps the model is all 0.
//
// Cost: worker_engine_benchmark, BM_FitStepModel.
class StepModelFitter {
 public:
  static constexpr int kRefitEvery = 64;  // steps
  static constexpr size_t kNews = 4;      // the first steps of a size and context are learned from at once
  static constexpr int kSizes = 14;       // of steps, by powers of 2 of tokens
  static constexpr int kContexts = 8;     // by powers of 4 of context tokens
  static constexpr int kPerClass = 32;
  static constexpr double kHalfLife = 1024;  // steps

  // A step that ran. One without tokens or duration teaches nothing.
  void Add(const StepShape& shape, Duration took);
  const StepModel& model() const { return model_; }

 private:
  struct Sample {
    StepShape shape;
    double us = 0;
    int64_t step = 0;
  };
  struct Class {
    std::vector<Sample> samples;  // a ring when full
    size_t oldest = 0;
  };
  void Refit();

  std::array<Class, kSizes * kContexts> classes_;
  int64_t steps_ = 0;
  size_t next_start_ = 0;  // of the knees to begin with
  StepModel model_;
};

}  // namespace qanat::engine
