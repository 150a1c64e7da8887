// Does a simulated device predict a real one? Measures both on the same workloads.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "tools/qanat/step_fit.h"
#include "tools/qanat/workload.h"
#include "worker/engine/engine_options.h"
#include "worker/engine/model_runner.h"

namespace qanat::tools {

// Of a run; times in ms.
struct RunFigures {
  double tokens_per_second = 0;
  double ttft_p50 = 0;
  double ttft_p90 = 0;
  double tpot_p50 = 0;
};

// REQUIRES: some request has two tokens.
RunFigures FiguresOf(const WorkloadResult& result);

struct PredictedRun {
  std::string workload;
  RunFigures predicted;
  RunFigures measured;  // median of each figure over the rounds
  // The largest of |predicted - measured| / measured.
  double worst_error() const;
};

struct Prediction {
  StepFit fit;                              // to the steps of the training workloads alone
  std::vector<engine::MeasuredStep> steps;  // these
  std::vector<PredictedRun> runs;
};

struct PredictionPlan {
  int rounds = 3;
  // Small batches do less in the same time, so the device is busy for far more of it than this part. Near
  // saturation queues amplify: at 0.6 a step 1 % longer makes TPOT 3 % longer, on a device and in simulation.
  double load = 0.5;
};

// Runs training workloads on `device`, fits a step model to their steps, and sets what a simulation with it
// predicts of three other workloads beside what `device` did:
//   closed    16 streams, 128 + 64 tokens in the median
//   open      Poisson arrivals at plan.load of the tokens a second of `closed`, 120 + 40 in the median
//   prefixes  8 streams, 8 groups of 512 shared tokens, 32 of each request's own and 32 of output in the
//   median
// Lengths are log-normal.
// All of it plan.rounds times, in turns. `clock` is the device's.
absl::StatusOr<Prediction> PredictRuns(const engine::EngineOptions& options, engine::ModelRunner& device,
                                       WaitableClock& clock, int32_t vocabulary, const PredictionPlan& plan);

}  // namespace qanat::tools
