#include "tools/qanat/prediction.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/virtual_clock.h"
#include "tools/qanat/measure.h"
#include "tools/qanat/random_tokens.h"
#include "worker/engine/step_model_fit.h"
#include "worker/sim/sim_model_runner.h"

namespace qanat::tools {
namespace {

constexpr double RunFigures::*kFigures[] = {&RunFigures::tokens_per_second, &RunFigures::ttft_p50,
                                            &RunFigures::ttft_p90, &RunFigures::tpot_p50};

// Of few, a median hangs on which ones happened to meet another's prompt.
constexpr int kOpenRequests = 200;

int Length(RandomTokens& random, double median, double spread, int least, int most) {
  return std::clamp(static_cast<int>(random.LogNormal(median, spread)), least, most);
}

// Steps of all kinds: few and many streams, short and long prompts.
std::vector<Workload> TrainingWorkloads(int32_t vocabulary, uint64_t seed) {
  constexpr struct {
    int streams, requests;
    double prompt;
  } kKinds[] = {{1, 3, 100},   {2, 6, 100},  {4, 12, 100}, {8, 20, 100},
                {16, 32, 100}, {32, 48, 60}, {4, 6, 800}};
  RandomTokens random(seed, vocabulary);
  std::vector<Workload> workloads;
  for (const auto& kind : kKinds) {
    Workload& workload = workloads.emplace_back(Workload{"training", {}, kind.streams});
    for (int i = 0; i < kind.requests; ++i) {
      const int prompt = Length(random, kind.prompt, 2.5, 4, 2000);
      const int output = Length(random, 32, 2, 4, 128);
      workload.requests.push_back({.arrival = {}, .prompt = random.Take(prompt), .max_tokens = output});
    }
  }
  return workloads;
}

// Equal requests would keep step with each other, and a quantile lie on the edge between two of their steps.
Workload ClosedLoop(int32_t vocabulary) {
  RandomTokens random(101, vocabulary);
  Workload workload{"closed", {}, 16};
  for (int i = 0; i < 128; ++i) {
    const int prompt = Length(random, 128, 1.5, 16, 512);
    const int output = Length(random, 64, 1.5, 8, 256);
    workload.requests.push_back({.arrival = {}, .prompt = random.Take(prompt), .max_tokens = output});
  }
  return workload;
}

Workload OpenLoop(int32_t vocabulary, double tokens_per_second) {
  RandomTokens random(102, vocabulary);
  Workload workload{"open", {}, 0};
  int64_t tokens = 0;
  for (int i = 0; i < kOpenRequests; ++i) {
    const int prompt = Length(random, 120, 2, 8, 1000);
    const int output = Length(random, 40, 1.8, 4, 200);
    workload.requests.push_back({.arrival = {}, .prompt = random.Take(prompt), .max_tokens = output});
    tokens += prompt + output;
  }
  const double mean_gap =
      static_cast<double>(tokens) / static_cast<double>(workload.requests.size()) / tokens_per_second;
  double due = 0;
  for (WorkloadRequest& request : workload.requests) {
    request.arrival = Duration(static_cast<int64_t>(due * 1e9));
    due += random.Exponential(mean_gap);
  }
  return workload;
}

Workload SharedPrefixes(int32_t vocabulary) {
  RandomTokens random(103, vocabulary);
  std::vector<std::vector<TokenId>> groups;
  for (int i = 0; i < 8; ++i) groups.push_back(random.Take(512));
  Workload workload{"prefixes", {}, 8};
  for (size_t i = 0; i < 128; ++i) {
    std::vector<TokenId> prompt = groups[i % groups.size()];
    const std::vector<TokenId> own = random.Take(Length(random, 32, 1.5, 4, 128));
    prompt.insert(prompt.end(), own.begin(), own.end());
    const int output = Length(random, 32, 1.5, 4, 128);
    workload.requests.push_back({.arrival = {}, .prompt = std::move(prompt), .max_tokens = output});
  }
  return workload;
}

// Runs all on `device` and keeps its steps.
absl::Status Train(const engine::EngineOptions& options, engine::ModelRunner& device, WaitableClock& clock,
                   int32_t vocabulary, uint64_t seed, std::vector<engine::MeasuredStep>& steps) {
  for (const Workload& workload : TrainingWorkloads(vocabulary, seed)) {
    QANAT_ASSIGN_OR_RETURN(const WorkloadResult result, RunWorkload(workload, options, device, clock));
    steps.insert(steps.end(), result.steps.begin(), result.steps.end());
  }
  return absl::OkStatus();
}

absl::StatusOr<RunFigures> Simulate(const Workload& workload, const engine::EngineOptions& options,
                                    const StepModel& model, int32_t vocabulary) {
  VirtualClock clock;
  sim::SimModelRunner runner({.device = model, .vocabulary = vocabulary}, clock);
  QANAT_ASSIGN_OR_RETURN(const WorkloadResult result, RunWorkload(workload, options, runner, clock));
  return FiguresOf(result);
}

RunFigures MedianOf(const std::vector<RunFigures>& rounds) {
  RunFigures median;
  for (const auto figure : kFigures) {
    std::vector<double> values;
    for (const RunFigures& round : rounds) values.push_back(round.*figure);
    median.*figure = Median(std::move(values));
  }
  return median;
}

}  // namespace

RunFigures FiguresOf(const WorkloadResult& result) {
  std::vector<double> ttft, tpot;
  for (const RequestTimes& times : result.requests) {
    if (!times.refused()) ttft.push_back(times.ttft_seconds() * 1e3);
    if (times.drawn.size() > 1) tpot.push_back(times.tpot_seconds() * 1e3);
  }
  return {.tokens_per_second = static_cast<double>(result.total_tokens()) / Seconds(result.span),
          .ttft_p50 = Quantile(ttft, 0.5),
          .ttft_p90 = Quantile(ttft, 0.9),
          .tpot_p50 = Quantile(tpot, 0.5)};
}

double PredictedRun::worst_error() const {
  double worst = 0;
  for (const auto figure : kFigures) {
    worst = std::max(worst, std::abs(predicted.*figure / measured.*figure - 1));
  }
  return worst;
}

absl::StatusOr<Prediction> PredictRuns(const engine::EngineOptions& options, engine::ModelRunner& device,
                                       WaitableClock& clock, int32_t vocabulary, const PredictionPlan& plan) {
  // Warms caches and pages, and says what load is.
  const Workload closed = ClosedLoop(vocabulary);
  QANAT_ASSIGN_OR_RETURN(const WorkloadResult first, RunWorkload(closed, options, device, clock));
  const double capacity = FiguresOf(first).tokens_per_second;
  const Workload workloads[] = {closed, OpenLoop(vocabulary, plan.load * capacity),
                                SharedPrefixes(vocabulary)};

  Prediction prediction;
  std::vector<std::vector<RunFigures>> measured(std::size(workloads));
  for (int round = 0; round < plan.rounds; ++round) {
    QANAT_RETURN_IF_ERROR(
        Train(options, device, clock, vocabulary, 1 + static_cast<uint64_t>(round), prediction.steps));
    for (size_t i = 0; i < std::size(workloads); ++i) {
      QANAT_ASSIGN_OR_RETURN(const WorkloadResult result, RunWorkload(workloads[i], options, device, clock));
      measured[i].push_back(FiguresOf(result));
    }
  }
  prediction.fit = FitHeldOut(prediction.steps);
  for (size_t i = 0; i < std::size(workloads); ++i) {
    QANAT_ASSIGN_OR_RETURN(const RunFigures predicted,
                           Simulate(workloads[i], options, prediction.fit.model, vocabulary));
    prediction.runs.push_back({workloads[i].name, predicted, MedianOf(measured[i])});
  }
  return prediction;
}

}  // namespace qanat::tools
