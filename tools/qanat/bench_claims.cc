#include "tools/qanat/bench_claims.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/base/virtual_clock.h"
#include "tools/qanat/bench_chart.h"
#include "tools/qanat/claims/report.h"
#include "tools/qanat/local_model.h"
#include "tools/qanat/measure.h"
#include "worker/sim/sim_model_runner.h"

namespace qanat::tools {
namespace {

using claims::Bed;
using claims::Lengths;
using claims::Report;
using claims::Scenario;
using claims::Section;

struct Options {
  std::string device = "both";
  LocalModelOptions model;
  int rounds = 3;
  bool quick = false;
  bool cpu_time = false;
  std::string only;
  uint64_t seed = 1;
  std::string json;
  std::string svg;
};

// 8 billion parameters in bf16 on an H200. Nothing here was measured: 16 GB of weights at 60 % of 4.8 TB/s,
// 16 GFLOP a token at 30 % of 989 TFLOP/s, 128 KiB of keys and values a token at 2.6 TB/s, 1 ms a step and 5
// us a sequence beside the kernels.
constexpr StepModel kAssumedH200{.fixed_us = 1000,
                                 .sequence_us = 5,
                                 .weights_us = 16e9 / (0.6 * 4.8e12) * 1e6,
                                 .token_us = 16e9 / (0.3 * 989e12) * 1e6,
                                 .context_us = 131072 / 2.6e12 * 1e6,
                                 .attention_us = 0};

// The time that this process computed. On one thread it is what a machine of its own would take, whatever
// runs beside it.
class CpuClock final : public WaitableClock {
 public:
  Time Now() const override {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return Time(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec)) + waited_;
  }
  void WaitUntil(Time until) override { waited_ += std::max(until - Now(), Duration::zero()); }

 private:
  Duration waited_{};
};

std::string ModelName(const Options& options) {
  return options.model.model.substr(options.model.model.rfind('/') + 1);
}

claims::Sizes RealSizes(bool quick) {
  return {.seats = 16,
          .requests = quick ? 64 : 96,
          .prompt = 24,
          .prompts_vary = false,
          .shared = 16,
          .groups = 8,
          .output = 64,
          .longest = 384};
}

std::vector<Scenario> RealScenarios(const Options& options, int32_t vocabulary) {
  const claims::Sizes sizes = RealSizes(options.quick);
  claims::Sizes long_prompts = sizes;
  long_prompts.requests = options.quick ? 32 : 48;
  long_prompts.prompt = 224;
  long_prompts.shared = 0;
  long_prompts.output = 64;
  long_prompts.longest = 256;
  const uint64_t seed = options.seed;
  return {MakeLadder(sizes, Lengths::kExponential, false, seed, vocabulary),
          MakeLadder(sizes, Lengths::kExponential, true, seed, vocabulary),
          MakeLadder(sizes, Lengths::kLogNormal, false, seed, vocabulary),
          MakeLadder(sizes, Lengths::kConstant, false, seed, vocabulary),
          MakeKvUse(long_prompts, seed, vocabulary),
          claims::MakeSharedPrefix(options.quick ? 64 : 128, sizes.seats, seed, vocabulary)};
}

std::vector<Scenario> SimScenarios(const Options& options, int32_t vocabulary) {
  const claims::Sizes sizes = {.seats = 16,
                               .requests = options.quick ? 256 : 1024,
                               .prompt = 161,
                               .prompts_vary = true,
                               .shared = 96,
                               .groups = 8,
                               .output = 338,
                               .longest = 2048};
  std::vector<Scenario> scenarios;
  for (const Lengths lengths : {Lengths::kExponential, Lengths::kLogNormal, Lengths::kConstant}) {
    for (const bool tight : {false, true}) {
      scenarios.push_back(MakeLadder(sizes, lengths, tight, options.seed, vocabulary));
    }
  }
  scenarios.push_back(claims::MakeSharedPrefix(512, sizes.seats, options.seed, vocabulary));
  return scenarios;
}

// All modes once. What a cache saves of the prompts is told by the form, not by the run.
absl::Status RunRound(const Scenario& scenario, const Bed& bed, Section& section) {
  claims::StepTimes steps;
  std::vector<double> prompt_seconds;
  for (size_t i = 0; i < scenario.modes.size(); ++i) {
    const claims::Mode& mode = scenario.modes[i];
    QANAT_ASSIGN_OR_RETURN(const claims::Measured measured, MeasureMode(scenario, mode, bed));
    section.rows[i].measured.push_back(measured.figures);
    if (mode.batching != engine::Batching::kStatic) steps.Add(measured.timings);
    prompt_seconds.push_back(mode.prefix_cache ? prompt_seconds.back() * ComputedShare(scenario)
                                               : measured.timings.prompt_seconds);
  }
  for (size_t i = 0; i < scenario.modes.size(); ++i) {
    section.rows[i].expected.push_back(Expect(scenario, scenario.modes[i], steps, prompt_seconds[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Scenario>> Chosen(std::vector<Scenario> scenarios, const std::string& part) {
  std::erase_if(scenarios,
                [&](const Scenario& scenario) { return scenario.title.find(part) == std::string::npos; });
  if (!scenarios.empty()) return scenarios;
  return absl::InvalidArgumentError(absl::StrCat("--only: no title has '", part, "' in it"));
}

absl::StatusOr<Report> RunAll(const std::vector<Scenario>& scenarios, int rounds, const Bed& bed) {
  Report report;
  report.device = bed.name;
  for (const Scenario& scenario : scenarios) {
    Section& section = report.sections.emplace_back(Section{scenario.title, scenario.about, {}});
    for (const claims::Mode& mode : scenario.modes) section.rows.push_back({mode.name, {}, {}});
  }
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < scenarios.size(); ++i) {
      std::fprintf(stderr, "round %d of %d: %s\n", round + 1, rounds, scenarios[i].title.c_str());
      QANAT_RETURN_IF_ERROR(RunRound(scenarios[i], bed, report.sections[i]));
    }
  }
  return report;
}

absl::StatusOr<Report> RunReal(const Options& options) {
  engine::EngineOptions engine;
  engine.batching = engine::Batching::kStatic;  // the one that wants blocks behind the pool
  engine.max_seqs = RealSizes(options.quick).seats;
  engine.queue_tokens = 1 << 30;
  constexpr int32_t kVocabulary = 32000;  // ids that every model has
  QANAT_ASSIGN_OR_RETURN(const std::vector<Scenario> scenarios,
                         Chosen(RealScenarios(options, kVocabulary), options.only));
  for (const Scenario& scenario : scenarios)
    engine.num_blocks = std::max(engine.num_blocks, scenario.num_blocks);
  QANAT_ASSIGN_OR_RETURN(const std::unique_ptr<LocalModel> local, LoadLocalModel(options.model, engine));
  RealClock wall_clock;
  CpuClock cpu_clock;
  WaitableClock& clock = options.cpu_time ? static_cast<WaitableClock&>(cpu_clock) : wall_clock;
  const Bed bed = {absl::StrCat(ModelName(options), " on this machine, ", local->backend->Numerics()),
                   *local->runner, clock, local->engine, kVocabulary};
  const double load = LoadAverage();
  const int64_t stolen = StolenJiffies();
  QANAT_RETURN_IF_ERROR(
      MeasureMode(scenarios.back(), scenarios.back().modes.back(), bed).status());  // warms up
  const int rounds = options.quick ? 1 : options.rounds;
  QANAT_ASSIGN_OR_RETURN(Report report, RunAll(scenarios, rounds, bed));
  absl::StrAppendFormat(&report.device, "%s; medians of %d rounds; load %.2f before, %d jiffies stolen",
                        options.cpu_time ? ", in CPU time of one thread" : "", rounds, load,
                        StolenJiffies() - stolen);
  return report;
}

// In virtual time one round is as good as many.
absl::StatusOr<Report> RunSim(const Options& options) {
  constexpr int32_t kVocabulary = 128000;
  VirtualClock clock;
  sim::SimModelRunner runner({.device = kAssumedH200, .vocabulary = kVocabulary}, clock);
  engine::EngineOptions engine;
  engine.context_length = 8192;
  engine.max_batch_tokens = 8192;
  engine.chunk_tokens = 2048;
  QANAT_ASSIGN_OR_RETURN(const std::vector<Scenario> scenarios,
                         Chosen(SimScenarios(options, kVocabulary), options.only));
  return RunAll(
      scenarios, 1,
      {"a simulated H200 with an 8B model in bf16: assumed coefficients, not measured; virtual time", runner,
       clock, engine, kVocabulary});
}

absl::Status Draw(const Report& report, const std::string& title, const std::string& path) {
  return WriteFile(path, RenderBarChart(ThroughputChart(report, title)));
}

absl::Status Run(const Options& options) {
  if (options.cpu_time && options.model.threads != 1) {
    return absl::InvalidArgumentError(
        "--cpu-time needs --threads=1: threads that wait for each other compute, too");
  }
  if (options.device != "sim" && options.model.model.empty()) {
    return absl::InvalidArgumentError("--model is required unless --device=sim");
  }
  nlohmann::json all = nlohmann::json::array();
  const auto publish = [&](const Report& report, const std::string& title, const char* picture) {
    std::printf("%s\n", ToText(report).c_str());
    all.push_back(ToJson(report));
    return options.svg.empty() ? absl::OkStatus() : Draw(report, title, options.svg + "/" + picture);
  };
  std::puts("In parentheses: the closed form, from the time of a step and the lengths alone.\n");
  if (options.device != "sim") {
    QANAT_ASSIGN_OR_RETURN(const Report report, RunReal(options));
    QANAT_RETURN_IF_ERROR(publish(report, ModelName(options) + ", 16 seats", "claims_cpu.svg"));
  }
  if (options.device != "real") {
    QANAT_ASSIGN_OR_RETURN(const Report report, RunSim(options));
    QANAT_RETURN_IF_ERROR(
        publish(report, "8B on a simulated H200 (assumed), 16 seats", "claims_h200_simulated.svg"));
  }
  return options.json.empty() ? absl::OkStatus() : WriteFile(options.json, all.dump(2) + "\n");
}

}  // namespace

std::function<absl::Status()> AddBenchClaims(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "claims",
      "Static and continuous batches, contiguous and paged caches, shared prefixes: what each is worth");
  const auto options = std::make_shared<Options>();
  app->add_option("--device", options->device, "real, sim (8B on an H200, assumed, in virtual time) or both")
      ->check(CLI::IsMember({"real", "sim", "both"}))
      ->capture_default_str();
  app->add_option("--model", options->model.model, "GGUF file")
      ->envname("QANAT_MODEL")
      ->check(CLI::ExistingFile);
  app->add_option("--threads", options->model.threads, "Compute threads; 0: all of the cpuset")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app->add_option("--rounds", options->rounds, "How often all modes take turns on the real model")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app->add_flag("--cpu-time", options->cpu_time,
                "Time is what this process computed, not what passed: for a machine that others use");
  app->add_flag("--quick", options->quick, "Fewer requests, one round");
  app->add_option("--only", options->only, "Only scenarios with this in their title, such as exponential");
  app->add_option("--seed", options->seed, "Of lengths and prompts")->capture_default_str();
  app->add_option("--json", options->json, "File for all figures");
  app->add_option("--svg", options->svg, "Folder for the pictures")->check(CLI::ExistingDirectory);
  return [app, options] { return app->parsed() ? Run(*options) : absl::OkStatus(); };
}

}  // namespace qanat::tools
