#include "tools/qanat/bench_predict.h"

#include <cstdio>
#include <memory>
#include <string>

#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/qanat/bench_chart.h"
#include "tools/qanat/bench_fit.h"
#include "tools/qanat/local_model.h"
#include "tools/qanat/measure.h"
#include "tools/qanat/prediction.h"
#include "worker/engine/step_log.h"

namespace qanat::tools {
namespace {

constexpr int kBlocks = 1024;

struct Options {
  LocalModelOptions local;
  PredictionPlan plan;
  std::string out;
  std::string step_log;
  bool json = false;
};

nlohmann::ordered_json ToJson(const RunFigures& figures) {
  return {{"tokens_per_second", figures.tokens_per_second},
          {"ttft_p50_ms", figures.ttft_p50},
          {"ttft_p90_ms", figures.ttft_p90},
          {"tpot_p50_ms", figures.tpot_p50}};
}

nlohmann::ordered_json ToJson(const Prediction& prediction) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const PredictedRun& run : prediction.runs) {
    runs.push_back({{"workload", run.workload},
                    {"predicted", ToJson(run.predicted)},
                    {"measured", ToJson(run.measured)},
                    {"worst_error", run.worst_error()}});
  }
  return {{"fit", ToJson(prediction.fit)}, {"runs", runs}};
}

void PrintRow(const char* name, const char* of, const RunFigures& figures) {
  std::printf("%-10s %-10s %10.1f %10.2f %10.2f %10.3f\n", name, of, figures.tokens_per_second,
              figures.ttft_p50, figures.ttft_p90, figures.tpot_p50);
}

void Print(const Prediction& prediction) {
  Print(prediction.fit);
  std::printf("\n%-10s %-10s %10s %10s %10s %10s\n", "", "", "tokens/s", "TTFT p50", "TTFT p90", "TPOT p50");
  for (const PredictedRun& run : prediction.runs) {
    PrintRow(run.workload.c_str(), "measured", run.measured);
    PrintRow("", "predicted", run.predicted);
    std::printf("%-10s worst error %.1f %%\n", "", run.worst_error() * 100);
  }
}

absl::Status WriteSteps(const std::string& path, const Prediction& prediction) {
  engine::EngineMetrics ignored;
  QANAT_ASSIGN_OR_RETURN(const auto log, engine::StepLog::Create(path, ignored));
  for (const engine::MeasuredStep& step : prediction.steps) {
    engine::StepStats stats;
    stats.shape = step.shape;
    stats.took = step.took;
    log->OnStep(stats);
  }
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  if (!options.out.empty()) QANAT_RETURN_IF_ERROR(CheckWritable("--out", options.out));
  if (!options.step_log.empty()) QANAT_RETURN_IF_ERROR(CheckWritable("--step-log", options.step_log));
  // Nothing is drafted: how often a guess is right is the text's, not the device's.
  QANAT_ASSIGN_OR_RETURN(const std::unique_ptr<LocalModel> local,
                         LoadLocalModel(options.local, {.num_blocks = kBlocks, .speculation = false}));
  const double load = LoadAverage();
  const int64_t stolen = StolenJiffies();
  RealClock clock;
  QANAT_ASSIGN_OR_RETURN(
      const Prediction prediction,
      PredictRuns(local->engine, *local->runner, clock, local->model.config.vocab_size, options.plan));
  if (!options.out.empty()) {
    QANAT_RETURN_IF_ERROR(WriteFile(options.out, ToJson(prediction.fit).dump(2) + "\n"));
  }
  if (!options.step_log.empty()) QANAT_RETURN_IF_ERROR(WriteSteps(options.step_log, prediction));
  if (options.json) {
    nlohmann::ordered_json report = ToJson(prediction);
    report["rounds"] = options.plan.rounds;
    report["load"] = options.plan.load;
    report["numerics"] = local->backend->Numerics();
    report["load_average"] = load;
    report["stolen_jiffies"] = StolenJiffies() - stolen;
    std::printf("%s\n", report.dump(2).c_str());
    return absl::OkStatus();
  }
  Print(prediction);
  std::printf("%d rounds, %s, load %.2f, %lld jiffies stolen; times in ms\n", options.plan.rounds,
              local->backend->Numerics().c_str(), load, static_cast<long long>(StolenJiffies() - stolen));
  return absl::OkStatus();
}

}  // namespace

std::function<absl::Status()> AddBenchPredict(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "predict",
      "Fits the step model to this machine and compares a simulation's figures with three real runs");
  const auto options = std::make_shared<Options>();
  AddLocalModel(*app, options->local);
  app->add_option("--rounds", options->plan.rounds, "How often each workload runs; medians are compared")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app->add_option(
         "--load", options->plan.load,
         "Of the open loop, in parts of the closed one's tokens a second; queues amplify errors near 1")
      ->check(CLI::Range(0.05, 1.0))
      ->capture_default_str();
  app->add_option("--out", options->out, "Write the model to this file, as JSON");
  app->add_option("--step-log", options->step_log, "Write the steps that it was fitted to, for `bench fit`");
  app->add_flag("--json", options->json, "Print JSON");
  return [app, options] { return app->parsed() ? Run(*options) : absl::OkStatus(); };
}

}  // namespace qanat::tools
