// A model on this machine's CPUs, in this process, ready for engines.
#pragma once

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/engine/engine_options.h"
#include "worker/model/device_model_runner.h"
#include "worker/model/model_loader.h"

namespace qanat::tools {

struct LocalModelOptions {
  std::string model;             // GGUF file
  int threads = 0;               // 0: all of the cpuset
  std::string kernels = "auto";  // as qanat-worker's --kernels
};

// Adds --model, --threads and --kernels to a subcommand; `options` outlives it.
void AddLocalModel(CLI::App& app, LocalModelOptions& options);

// What: backend, weights, a KV cache of engine.num_blocks blocks, and the runner over them. One engine at a
// time may use it. Threads: the one that created it, which is compute thread 0.
struct LocalModel {
  std::string name;  // of the file, without its folder
  int threads = 0;   // that compute
  std::unique_ptr<backend::Backend> backend;
  model::LoadedModel model;
  std::unique_ptr<model::DeviceModelRunner> runner;
  engine::EngineOptions engine;  // as given, with the model's context
};

// REQUIRES: engine.num_blocks > 0.
absl::StatusOr<std::unique_ptr<LocalModel>> LoadLocalModel(const LocalModelOptions& options,
                                                           const engine::EngineOptions& engine);

}  // namespace qanat::tools
