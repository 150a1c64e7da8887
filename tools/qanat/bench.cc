// `qanat bench`: measurements, one subcommand each.
#include <functional>
#include <memory>
#include <vector>

#include "tools/qanat/bench_chart.h"
#include "tools/qanat/bench_claims.h"
#include "tools/qanat/bench_engine.h"
#include "tools/qanat/bench_fit.h"
#include "tools/qanat/bench_index.h"
#include "tools/qanat/bench_predict.h"
#include "tools/qanat/bench_serve.h"
#include "tools/qanat/command.h"

namespace qanat::tools {

namespace {

std::function<absl::Status()> AddEngine(CLI::App& bench) {
  CLI::App* app =
      bench.add_subcommand("engine", "Tokens a second of the engine in this process, without gRPC");
  const auto options = std::make_shared<BenchEngineOptions>();
  AddLocalModel(*app, options->local);
  app->add_option("--rounds", options->rounds, "How often each row runs; medians are reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app->add_option("--streams", options->streams, "Streams at once, in the rows decode and mix")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app->add_option("--rows", options->rows, "What to measure")
      ->delimiter(',')
      ->check(CLI::IsMember(BenchEngineRows()))
      ->capture_default_str();
  app->add_option("--step-log", options->step_log, "Record the rows' steps in this file, for `bench fit`");
  app->add_flag("--json", options->json, "Print JSON");
  return [app, options] { return app->parsed() ? RunBenchEngine(*options) : absl::OkStatus(); };
}

std::function<absl::Status()> AddIndex(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "index", "The router's index in this process: updates a second, bytes a block, time of a decision");
  const auto options = std::make_shared<BenchIndexOptions>();
  app->add_option("--workers", options->workers, "Workers")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app->add_option("--blocks", options->blocks, "Blocks that each holds")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app->add_option("--tokens", options->tokens, "Lengths of prompts, a row each")
      ->check(CLI::Range(16, 1 << 22))
      ->capture_default_str();
  app->add_flag("--json", options->json, "Print JSON");
  return [app, options] { return app->parsed() ? RunBenchIndex(*options) : absl::OkStatus(); };
}

}  // namespace

Command AddBench(CLI::App& qanat) {
  CLI::App* app = qanat.add_subcommand("bench", "Measures");
  app->require_subcommand(1);
  const std::vector<std::function<absl::Status()>> subcommands = {
      AddEngine(*app),   AddIndex(*app),        AddBenchServe(*app),  AddBenchChart(*app),
      AddBenchFit(*app), AddBenchPredict(*app), AddBenchClaims(*app),
  };
  return {app, [subcommands] {
            absl::Status status;
            for (const auto& run : subcommands) status.Update(run());
            return status;
          }};
}

}  // namespace qanat::tools
