#include "tools/qanat/bench_serve.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/rpc/options.h"
#include "common/rpc/status.h"
#include "nlohmann/json.hpp"
#include "qanat/v1/model.grpc.pb.h"
#include "tools/qanat/client.h"
#include "tools/qanat/command.h"
#include "tools/qanat/load/load_driver.h"
#include "tools/qanat/load/trace.h"
#include "tools/qanat/measure.h"

namespace qanat::tools {
namespace {

struct BenchServeOptions {
  ClientOptions client;
  std::string model;
  int streams = 16;
  double rate = 0;  // 0: a closed loop of `streams`, unless there is a trace
  std::string trace;
  double speedup = 1;
  int shrink = 1;
  int requests = 0;  // 0: enough for the streams, or all of the trace
  Shape shape;
  std::optional<uint64_t> seed;  // unset: drawn, since a second run would find the first one's prompts cached
  std::string ttft_limit, tpot_limit;
};

bool IsOpenLoop(const BenchServeOptions& options) { return options.rate > 0 || !options.trace.empty(); }

absl::StatusOr<std::vector<Session>> MakeTraffic(const BenchServeOptions& options, uint64_t seed) {
  if (!IsOpenLoop(options) && options.requests > 0 && options.requests < options.streams) {
    return UsageError(
        absl::StrCat("--requests ", options.requests, " cannot keep --streams ", options.streams, " busy"));
  }
  std::vector<Session> sessions;
  if (!options.trace.empty()) {
    QANAT_ASSIGN_OR_RETURN(sessions, ReadTrace(options.trace, options.requests));
    SpeedUp(options.speedup, sessions);
  } else {
    Shape shape = options.shape;
    // The end of a closed loop, which has fewer streams, should be a small part of it.
    shape.sessions = options.requests > 0  ? options.requests
                     : IsOpenLoop(options) ? shape.sessions
                                           : std::max(shape.sessions, 4 * options.streams);
    sessions = MakeSessions(shape);
    if (options.rate > 0) ArriveAtRandom(options.rate, seed, sessions);
  }
  Shrink(options.shrink, sessions);
  return sessions;
}

absl::StatusOr<std::optional<Duration>> ReadLimit(const char* flag, const std::string& text) {
  if (text.empty()) return std::nullopt;
  QANAT_ASSIGN_OR_RETURN(const Duration limit, ReadDuration(flag, text));
  return limit;
}

// The one that is asked for; of a single model its name may be left out.
absl::StatusOr<v1::Model> FindModel(const BenchServeOptions& options,
                                    const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = v1::ModelService::NewStub(channel);
  v1::ListModelsResponse response;
  QANAT_RETURN_IF_ERROR(RunCall(options.client, channel, [&](grpc::ClientContext& context) {
    const absl::Status status = rpc::FromGrpc(stub->ListModels(&context, v1::ListModelsRequest(), &response));
    if (!status.ok() || response.models_size() > 0) return status;
    return WithReason(absl::UnavailableError("no model is served yet"), "NO_WORKER");
  }));
  for (const v1::Model& model : response.models()) {
    if (options.model.empty() || model.id() == options.model) return model;
  }
  return absl::NotFoundError(absl::StrCat("no model is called ", options.model));
}

// Ctrl-C ends the load, not the report; a second one ends the process.
std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch nothing else");

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void ShowProgress(const LoadProgress& progress, size_t sessions) {
  std::fprintf(stderr, "\r%.1f s: %zu of %zu begun, %zu open, %zu requests ended, %.0f tokens/s\033[K",
               Seconds(progress.elapsed), progress.begun, sessions, progress.open, progress.ended,
               static_cast<double>(progress.tokens) / Seconds(progress.elapsed));
}

// Beyond them the load generator is part of what it measures.
constexpr double kMostLateMs = 1;
constexpr double kMostMachinePercent = 3;

struct ClientCost {
  double core_percent = 0;     // of one core
  double machine_percent = 0;  // of all of them
};

// What is printed.
struct LoadReport {
  Limits limits;
  uint64_t seed = 0;
  int streams = 0;      // 0: an open loop
  size_t requests = 0;  // sessions
  Summary summary;
  ClientCost cost;
};

nlohmann::json ToJson(const Percentiles& of) { return {{"p50", of.p50}, {"p90", of.p90}, {"p99", of.p99}}; }

void PrintAsJson(const LoadReport& report) {
  const Summary& summary = report.summary;
  const nlohmann::json json = {
      {"streams", report.streams},
      {"requests", report.requests},
      {"seconds", summary.seconds},
      {"served", summary.served},
      {"short", summary.short_answers},
      {"interrupted", summary.interrupted},
      {"refused", summary.refused},
      {"ttft_ms", ToJson(summary.ttft)},
      {"tpot_ms", ToJson(summary.tpot)},
      {"itl_ms", ToJson(summary.itl)},
      {"prompt_tokens", summary.prompt_tokens},
      {"cached_tokens", summary.cached_tokens},
      {"output_tokens", summary.output_tokens},
      {"tokens_per_second", summary.PerSecond(summary.prompt_tokens + summary.output_tokens)},
      {"output_tokens_per_second", summary.PerSecond(summary.output_tokens)},
      {"served_per_second", summary.PerSecond(summary.served)},
      {"goodput_per_second", summary.PerSecond(summary.good)},
      {"late_ms", ToJson(summary.late)},
      {"client_core_percent", report.cost.core_percent},
      {"client_machine_percent", report.cost.machine_percent},
      {"load_average", LoadAverage()},
      {"seed", report.seed}};
  std::printf("%s\n", json.dump(2).c_str());
}

void PrintRow(const char* name, const Percentiles& of) {
  std::printf("%-10s %10.2f %10.2f %10.2f\n", name, of.p50, of.p90, of.p99);
}

void PrintUnserved(const Summary& summary) {
  if (summary.short_answers > 0) {
    std::printf("short      %lld answers with fewer tokens than asked for\n",
                static_cast<long long>(summary.short_answers));
  }
  for (const auto& [name, count] : summary.refused) {
    std::printf("refused    %lld %s\n", static_cast<long long>(count), name.c_str());
  }
  if (summary.interrupted > 0) {
    std::printf("interrupted with %lld requests open\n", static_cast<long long>(summary.interrupted));
  }
}

void PrintAsText(const LoadReport& report) {
  const Summary& summary = report.summary;
  if (report.streams > 0) {
    std::printf("closed loop of %d streams, %zu requests\n", report.streams, report.requests);
  } else {
    std::printf("open loop, %zu requests\n", report.requests);
  }
  const double cached = summary.prompt_tokens > 0 ? 100.0 * static_cast<double>(summary.cached_tokens) /
                                                        static_cast<double>(summary.prompt_tokens)
                                                  : 0;
  std::printf("%-10s %10s %10s %10s   %lld served in %.2f s\n", "ms", "p50", "p90", "p99",
              static_cast<long long>(summary.served), summary.seconds);
  PrintRow("TTFT", summary.ttft);
  PrintRow("TPOT", summary.tpot);
  PrintRow("ITL", summary.itl);
  std::printf("tokens/s   %.1f, of which %.1f generated\n",
              summary.PerSecond(summary.prompt_tokens + summary.output_tokens),
              summary.PerSecond(summary.output_tokens));
  std::printf("cached     %lld of %lld prompt tokens, %.1f %%\n",
              static_cast<long long>(summary.cached_tokens), static_cast<long long>(summary.prompt_tokens),
              cached);
  if (report.limits.ttft.has_value() || report.limits.tpot.has_value()) {
    std::printf("goodput    %.2f of %.2f requests/s kept the limits\n", summary.PerSecond(summary.good),
                summary.PerSecond(summary.served));
  }
  PrintUnserved(summary);
  std::printf(
      "client     %.2f %% of a core, %.2f %% of the machine; requests left %.2f ms late (p99); seed %llu\n",
      report.cost.core_percent, report.cost.machine_percent, summary.late.p99,
      static_cast<unsigned long long>(report.seed));
}

// Where the load generator is part of what it measured.
void Warn(const LoadReport& report) {
  if (report.summary.late.p99 > kMostLateMs) {
    std::fprintf(stderr, "warning: requests left %.2f ms late (p99): this client was too slow for the load\n",
                 report.summary.late.p99);
  }
  if (report.cost.machine_percent > kMostMachinePercent) {
    std::fprintf(stderr,
                 "warning: the client took %.1f %% of this machine; a server on it had as much less\n",
                 report.cost.machine_percent);
  }
}

// An error when there is nothing to report on.
absl::Status Verdict(const Summary& summary) {
  if (summary.served > 0) return absl::OkStatus();
  if (!summary.refused.empty()) return summary.commonest_refusal;
  if (summary.short_answers > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("nothing was served: all ", summary.short_answers,
                     " answers fell short, as when prompt and answer are longer than the context"));
  }
  return absl::CancelledError("interrupted before anything was served");
}

absl::Status RunBenchServe(const BenchServeOptions& options) {
  QANAT_ASSIGN_OR_RETURN(const Duration timeout, ReadDuration("--timeout", options.client.timeout));
  LoadReport report;
  QANAT_ASSIGN_OR_RETURN(report.limits.ttft, ReadLimit("--ttft-limit", options.ttft_limit));
  QANAT_ASSIGN_OR_RETURN(report.limits.tpot, ReadLimit("--tpot-limit", options.tpot_limit));
  report.seed = options.seed.has_value() ? *options.seed : RandomSource().Draw();
  report.streams = IsOpenLoop(options) ? 0 : options.streams;
  QANAT_ASSIGN_OR_RETURN(const std::vector<Session> sessions, MakeTraffic(options, report.seed));
  report.requests = sessions.size();
  const std::shared_ptr<grpc::Channel> channel = rpc::MakeChannel(options.client.target);
  QANAT_ASSIGN_OR_RETURN(const v1::Model model, FindModel(options, channel));

  const RealClock clock;
  LoadDriver driver(channel, clock,
                    {.streams = report.streams,
                     .timeout = timeout,
                     .model = model.id(),
                     .vocab_size = model.vocab_size(),
                     .seed = report.seed});
  const bool terminal = isatty(STDERR_FILENO) == 1;
  CatchInterrupts();
  const Duration cpu = ProcessCpuTime();
  driver.Run(sessions, interrupted, [&](const LoadProgress& progress) {
    if (terminal) ShowProgress(progress, sessions.size());
  });
  if (terminal) std::fputs("\r\033[K", stderr);

  report.cost.core_percent = 100 * Seconds(ProcessCpuTime() - cpu) / Seconds(driver.elapsed());
  report.cost.machine_percent = report.cost.core_percent / static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  report.summary = driver.tally().Summarize(driver.elapsed(), report.limits);
  options.client.json ? PrintAsJson(report) : PrintAsText(report);
  Warn(report);
  return Verdict(report.summary);
}

void AddArrivals(CLI::App& app, BenchServeOptions& options) {
  CLI::Option* streams =
      app.add_option("--streams", options.streams, "Closed loop: sessions at once, the next when one ends")
          ->check(CLI::Range(1, 1 << 20))
          ->capture_default_str();
  CLI::Option* rate =
      app.add_option("--rate", options.rate, "Open loop: sessions a second, at random (Poisson)")
          ->check(CLI::PositiveNumber)
          ->excludes(streams);
  app.add_option("--trace", options.trace, "Open loop: a trace file, Mooncake (JSON lines) or Azure (CSV)")
      ->check(CLI::ExistingFile)
      ->excludes(streams)
      ->excludes(rate);
  app.add_option("--speedup", options.speedup, "The trace's time, divided by this")
      ->check(CLI::PositiveNumber)
      ->needs("--trace")
      ->capture_default_str();
  app.add_option("--requests", options.requests,
                 "Sessions in all, in a closed loop not fewer than --streams; default 64 but at least 4 x "
                 "--streams, or "
                 "the whole trace")
      ->check(CLI::Range(1, 1 << 24));
}

void AddShape(CLI::App& app, BenchServeOptions& options) {
  const auto add = [&](const char* name, int& value, int least, const char* text) {
    return app.add_option(name, value, text)->check(CLI::Range(least, 1 << 20))->capture_default_str();
  };
  std::vector<CLI::Option*> made_up = {
      add("--own,--prompt", options.shape.own, 1, "Tokens of each prompt that no other has"),
      add("--output", options.shape.output, 1,
          "Tokens to generate, exactly: an answer that ends with fewer counts as short, not as served"),
      add("--shared", options.shape.shared, 0, "Tokens before them that all prompts of a group have"),
      add("--groups", options.shape.groups, 1, "Groups of prompts"),
      add("--turns", options.shape.turns, 1,
          "Turns of each session; the next prompt is all before and --own more")};
  for (CLI::Option* option : made_up) option->excludes("--trace");
  add("--shrink", options.shrink, 1, "Divides all lengths, for long traces and small models");
  app.add_option("--seed", options.seed, "Other tokens, other arrivals; default: drawn");
}

}  // namespace

std::function<absl::Status()> AddBenchServe(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "serve",
      "A load on a router or a worker: latencies, tokens a second, refusals. Ctrl-C ends it with a report");
  const auto options = std::make_shared<BenchServeOptions>();
  AddClientOptions(*app, options->client);
  app->get_option("--json")->description("Print the report as JSON");
  app->get_option("--timeout")->description("Deadline of each request; 0 is none");
  app->add_option("--model", options->model, "Which model, where several are served");
  AddArrivals(*app, *options);
  AddShape(*app, *options);
  app->add_option("--ttft-limit", options->ttft_limit,
                  "Goodput: longest time to the first token, in an open loop from when the request was due");
  app->add_option("--tpot-limit", options->tpot_limit, "Goodput: longest time for each token after it");
  return [app, options] { return app->parsed() ? RunBenchServe(*options) : absl::OkStatus(); };
}

}  // namespace qanat::tools
