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
#include "tools/qanat/claims/rounds.h"
#include "tools/qanat/command.h"
#include "tools/qanat/local_model.h"
#include "tools/qanat/measure.h"
#include "worker/sim/sim_model_runner.h"

namespace qanat::tools {
namespace {

using claims::Bed;
using claims::Lengths;
using claims::Report;
using claims::Scenario;

struct Options {
  std::string device = "both";
  LocalModelOptions model;
  int rounds = 3;
  bool quick = false;
  bool cpu_time = false;
  std::string only;
  uint64_t seed = 1;
  std::string out;
  std::string svg;
  bool json = false;
};

constexpr int32_t kRealVocabulary = 32000;  // ids that every model has
constexpr int32_t kSimVocabulary = 128000;

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

using Rounds = std::vector<std::vector<Scenario>>;

// Each round orders lengths anew. Empty: no title has --only in it.
Rounds MakeRounds(const Options& options, int32_t vocabulary,
                  std::vector<Scenario> (*make)(const Options& options, int32_t vocabulary)) {
  Rounds rounds;
  for (int round = 0; round < (options.quick ? 1 : options.rounds); ++round) {
    Options of_round = options;
    of_round.seed += static_cast<uint64_t>(round);
    std::vector<Scenario> scenarios = make(of_round, vocabulary);
    std::erase_if(scenarios, [&](const Scenario& scenario) {
      return scenario.title.find(options.only) == std::string::npos;
    });
    if (scenarios.empty()) return {};
    rounds.push_back(std::move(scenarios));
  }
  return rounds;
}

absl::StatusOr<Report> RunReal(const Options& options, const Rounds& rounds) {
  engine::EngineOptions engine;
  engine.batching = engine::Batching::kStatic;  // the one that wants blocks behind the pool
  engine.max_seqs = RealSizes(options.quick).seats;
  engine.queue_tokens = 1 << 30;
  for (const std::vector<Scenario>& scenarios : rounds) {
    for (const Scenario& scenario : scenarios) {
      engine.num_blocks = std::max(engine.num_blocks, scenario.num_blocks);
    }
  }
  QANAT_ASSIGN_OR_RETURN(const std::unique_ptr<LocalModel> local, LoadLocalModel(options.model, engine));
  RealClock wall_clock;
  CpuClock cpu_clock;
  WaitableClock& clock = options.cpu_time ? static_cast<WaitableClock&>(cpu_clock) : wall_clock;
  const Bed bed = {absl::StrCat(ModelName(options), " on this machine, ", local->backend->Numerics()),
                   *local->runner, clock, local->engine};
  const double load = LoadAverage();
  const int64_t stolen = StolenJiffies();
  const Scenario& last = rounds.front().back();
  QANAT_RETURN_IF_ERROR(MeasureMode(last, last.modes.back(), bed).status());  // warms up
  QANAT_ASSIGN_OR_RETURN(Report report, RunRounds(rounds, bed));
  absl::StrAppendFormat(&report.device, "%s; medians of %d rounds; load %.2f before, %d jiffies stolen",
                        options.cpu_time ? ", in CPU time of one thread" : "", rounds.size(), load,
                        StolenJiffies() - stolen);
  return report;
}

absl::StatusOr<Report> RunSim(const Rounds& rounds) {
  VirtualClock clock;
  sim::SimModelRunner runner({.device = kAssumedH200, .vocabulary = kSimVocabulary}, clock);
  engine::EngineOptions engine;
  engine.context_length = 8192;
  engine.max_batch_tokens = 8192;
  engine.chunk_tokens = 2048;
  QANAT_ASSIGN_OR_RETURN(
      Report report,
      RunRounds(
          rounds,
          {"A simulated H200 with an 8B model in bf16: assumed coefficients, not measured; virtual time",
           runner, clock, engine}));
  absl::StrAppendFormat(&report.device, "; medians of %d rounds", rounds.size());
  return report;
}

// Publishes a device's report as soon as it is there, so that a failure of the next one does not lose it.
class Publisher {
 public:
  explicit Publisher(const Options& options) : options_(options) {}

  absl::Status operator()(const Report& report, const std::string& title, const char* picture) {
    all_.push_back(ToJson(report));
    if (!options_.json) std::printf("%s\n", ToMarkdown(report).c_str());
    if (!options_.out.empty()) QANAT_RETURN_IF_ERROR(WriteFile(options_.out, all_.dump(2) + "\n"));
    if (options_.svg.empty()) return absl::OkStatus();
    return WriteFile(options_.svg + "/" + picture, RenderBarChart(ThroughputChart(report, title)));
  }
  const nlohmann::json& all() const { return all_; }

 private:
  const Options& options_;
  nlohmann::json all_ = nlohmann::json::array();
};

constexpr char kRealPicture[] = "claims_cpu.svg";
constexpr char kSimPicture[] = "claims_h200_simulated.svg";

// What can be wrong with the command line is said before minutes are spent.
absl::Status Check(const Options& options, const Rounds& real, const Rounds& sim) {
  if (real.empty() && sim.empty()) {
    return UsageError(absl::StrCat("--only: no title has '", options.only, "' in it"));
  }
  if (options.cpu_time && options.model.threads != 1) {
    return UsageError("--cpu-time needs --threads=1: threads that wait for each other compute, too");
  }
  if (!real.empty() && options.model.model.empty()) {
    return UsageError("--model is required unless --device=sim");
  }
  if (!options.out.empty()) QANAT_RETURN_IF_ERROR(CheckWritable("--out", options.out));
  if (options.svg.empty()) return absl::OkStatus();
  if (!real.empty()) QANAT_RETURN_IF_ERROR(CheckWritable("--svg", options.svg + "/" + kRealPicture));
  if (!sim.empty()) QANAT_RETURN_IF_ERROR(CheckWritable("--svg", options.svg + "/" + kSimPicture));
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  const Rounds real =
      options.device != "sim" ? MakeRounds(options, kRealVocabulary, RealScenarios) : Rounds();
  const Rounds sim = options.device != "real" ? MakeRounds(options, kSimVocabulary, SimScenarios) : Rounds();
  QANAT_RETURN_IF_ERROR(Check(options, real, sim));
  Publisher publish(options);
  if (!options.json) {
    std::puts(
        "In parentheses: the closed form, from the lengths and from what a step and a prompt's token "
        "take.\n");
  }
  if (!real.empty()) {
    QANAT_ASSIGN_OR_RETURN(const Report report, RunReal(options, real));
    QANAT_RETURN_IF_ERROR(publish(report, ModelName(options) + ", 16 seats", kRealPicture));
  }
  if (!sim.empty()) {
    QANAT_ASSIGN_OR_RETURN(const Report report, RunSim(sim));
    QANAT_RETURN_IF_ERROR(publish(report, "8B on a simulated H200 (assumed), 16 seats", kSimPicture));
  }
  if (options.json) std::printf("%s\n", publish.all().dump(2).c_str());
  return absl::OkStatus();
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
  app->add_option("--rounds", options->rounds,
                  "How often all modes take turns, each time with the lengths in another order")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app->add_flag("--cpu-time", options->cpu_time,
                "Time is what this process computed, not what passed: for a machine that others use");
  app->add_flag("--quick", options->quick, "Fewer requests, one round");
  app->add_option("--only", options->only, "Only scenarios with this in their title, such as exponential");
  app->add_option("--seed", options->seed,
                  "Of the first round's lengths and prompts; the next ones count on from it")
      ->capture_default_str();
  app->add_option("--out", options->out, "Write all figures to this file, as JSON");
  app->add_option("--svg", options->svg, "Folder for the pictures")->check(CLI::ExistingDirectory);
  app->add_flag("--json", options->json, "Print JSON instead of tables");
  return [app, options] { return app->parsed() ? Run(*options) : absl::OkStatus(); };
}

}  // namespace qanat::tools
