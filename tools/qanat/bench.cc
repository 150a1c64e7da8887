// `qanat bench`: measurements, one subcommand each.
#include <memory>

#include "tools/qanat/bench_engine.h"
#include "tools/qanat/command.h"

namespace qanat::tools {

Command AddBench(CLI::App& qanat) {
  CLI::App* app = qanat.add_subcommand("bench", "Measures");
  app->require_subcommand(1);
  CLI::App* engine = app->add_subcommand(
      "engine", "Tokens a second of the engine in this process: prefill of 512, one stream, 16 x (128 + 64)");
  const auto options = std::make_shared<BenchEngineOptions>();
  engine->add_option("--model", options->model, "GGUF file")
      ->envname("QANAT_MODEL")
      ->required()
      ->check(CLI::ExistingFile);
  engine->add_option("--threads", options->threads, "Compute threads; 0: all of the cpuset")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  engine->add_option("--kernels", options->kernels, "auto, avx512, scalar or reference")
      ->capture_default_str();
  engine->add_option("--rounds", options->rounds, "How often each row runs; medians are reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  engine->add_flag("--json", options->json, "Print JSON");
  return {app, [options] { return RunBenchEngine(*options); }};
}

}  // namespace qanat::tools
