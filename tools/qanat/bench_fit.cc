#include "tools/qanat/bench_fit.h"

#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "tools/qanat/bench_chart.h"
#include "tools/qanat/command.h"
#include "worker/engine/step_log.h"
#include "worker/sim/step_model_file.h"

namespace qanat::tools {
namespace {

// Fewer say nothing about six coefficients.
constexpr size_t kFewest = 50;

struct Options {
  std::vector<std::string> logs;
  std::string out;
  bool json = false;
};

absl::Status Run(const Options& options) {
  std::vector<engine::MeasuredStep> steps;
  for (const std::string& path : options.logs) {
    QANAT_ASSIGN_OR_RETURN(const std::vector<engine::MeasuredStep> log, engine::ReadStepLog(path));
    steps.insert(steps.end(), log.begin(), log.end());
  }
  const StepFit fit = FitHeldOut(steps);
  if (fit.steps < kFewest) {
    return UsageError(absl::StrCat("--log: ", fit.steps, " steps are too few: it takes ", kFewest));
  }
  if (!options.out.empty()) QANAT_RETURN_IF_ERROR(WriteFile(options.out, ToJson(fit).dump(2) + "\n"));
  if (options.json) {
    std::printf("%s\n", ToJson(fit).dump(2).c_str());
  } else {
    Print(fit);
  }
  return absl::OkStatus();
}

}  // namespace

nlohmann::ordered_json ToJson(const StepFit& fit) {
  auto json = nlohmann::ordered_json::parse(sim::ToJson(fit.model));
  json["steps"] = fit.steps;
  json["held_out"] = {
      {"steps", fit.held_out}, {"median_error", fit.median_error}, {"mean_error", fit.mean_error}};
  return json;
}

void Print(const StepFit& fit) {
  const StepModel& model = fit.model;
  std::printf("a step of the device, fitted to %zu steps\n", fit.steps);
  std::printf("  fixed      %12.3f us\n", model.fixed_us);
  std::printf("  sequence   %12.3f us a sequence\n", model.sequence_us);
  std::printf("  weights    %12.3f us, or, if more,\n", model.weights_us);
  std::printf("  token      %12.3f us a token\n", model.token_us);
  std::printf("  context    %12.6f us a token of context\n", model.context_us);
  std::printf("  attention  %12.6f us a token and token of context of a chunk\n", model.attention_us);
  std::printf("held out, %zu steps: median error %.1f %%, mean error %.1f %%\n", fit.held_out,
              fit.median_error * 100, fit.mean_error * 100);
}

std::function<absl::Status()> AddBenchFit(CLI::App& bench) {
  CLI::App* app =
      bench.add_subcommand("fit", "Fits the step model to logs of steps (--step-log), for --sim-model");
  const auto options = std::make_shared<Options>();
  app->add_option("--log", options->logs, "Step logs; all are fitted together")
      ->required()
      ->check(CLI::ExistingFile);
  app->add_option("--out", options->out, "Write the model to this file, as JSON");
  app->add_flag("--json", options->json, "Print JSON");
  return [app, options] { return app->parsed() ? Run(*options) : absl::OkStatus(); };
}

}  // namespace qanat::tools
