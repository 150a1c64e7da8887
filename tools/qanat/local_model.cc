#include "tools/qanat/local_model.h"

#include "common/base/cpu_topology.h"
#include "common/base/status_macros.h"
#include "worker/backend/cpu_backend.h"

namespace qanat::tools {

void AddLocalModel(CLI::App& app, LocalModelOptions& options) {
  app.add_option("--model", options.model, "GGUF file")
      ->envname("QANAT_MODEL")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--threads", options.threads, "Compute threads; 0: all of the cpuset")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--kernels", options.kernels, "auto, avx512, avx2, scalar or reference")
      ->capture_default_str();
}

absl::StatusOr<std::unique_ptr<LocalModel>> LoadLocalModel(const LocalModelOptions& options,
                                                           const engine::EngineOptions& engine) {
  auto local = std::make_unique<LocalModel>();
  local->name = options.model.substr(options.model.rfind('/') + 1);
  local->threads = options.threads > 0 ? options.threads : ReadCpuTopology().ComputeThreads();
  local->engine = engine;
  QANAT_ASSIGN_OR_RETURN(local->backend,
                         backend::CreateCpuBackend({.threads = local->threads, .kernels = options.kernels}));
  QANAT_ASSIGN_OR_RETURN(local->model, model::LoadModel(options.model, *local->backend,
                                                        {.max_tokens = engine.max_batch_tokens,
                                                         .max_logit_rows = engine.max_logit_rows()}));
  local->engine.context_length = local->model.config.context_length;
  const auto format = options.kernels == "reference" ? backend::KvFormat::kF32 : backend::KvFormat::kBF16;
  QANAT_RETURN_IF_ERROR(local->backend->AllocateKv(model::KvConfigFor(
      local->model.config, engine.block_size, engine.num_blocks + engine.padding_blocks(), format)));
  local->runner = std::make_unique<model::DeviceModelRunner>(*local->model.model, *local->backend);
  return local;
}

}  // namespace qanat::tools
