#include "worker/flags.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/cli/command_line.h"

namespace qanat::worker {
namespace {

constexpr char kFooter[] =
    "Every flag is also QANAT_<NAME> in the environment (QANAT_KV_BLOCKS) and a key of the --config file.\n"
    "Exit status: 0 after SIGTERM or SIGINT, 1 when it cannot run, 2 for a mistake in the flags, 3 when the\n"
    "watchdog found the engine stuck.";

// What the command line says, before it is checked.
struct Raw {
  std::string threads = "0";
  std::string context_length = "0";
  std::string kv_blocks = "0";
  std::string kv_memory = "0";
  std::string block_size = "16";
  std::string max_batch_tokens = "512";
  std::string max_seqs = "64";
  std::string chunk_tokens = "256";
  std::string queue_requests = "256";
  std::string queue_tokens = "256K";
  std::string prefix_cache = "on";
  std::string batching = "continuous";
  std::string kv = "paged";
  std::string stall_limit = "30s";
  std::string drain_limit = "30s";
  std::string watchdog = "10s";
  std::string class_defaults = "1s,10s,10m";
  // One value is built, the others are refused by name.
  std::string inter_token_target = "100ms";
  std::string kv_dtype = "auto";
  std::string eviction = "lru";
  std::string speculation = "lookup";
  std::string tensor_parallel_size = "1";
  std::string rank = "0";
  std::string leader;
  std::string cluster_token_file;
  bool deterministic = false;
};

void AddServing(CLI::App& app, Flags& flags, Raw& raw) {
  cli::AddFlag(app, "model", flags.model, "GGUF file; required");
  cli::AddFlag(app, "model-id", flags.model_id, "what callers write in `model`; default: the file's name");
  cli::AddFlag(app, "listen", flags.listen, "gRPC; port 0 picks one and prints it");
  cli::AddFlag(app, "metrics-listen", flags.metrics_listen, "plain HTTP, GET /metrics");
  cli::AddFlag(app, "health-listen", flags.health_listen, "plain gRPC health: liveness, readiness");
  cli::AddFlag(app, "hash-key-file", flags.hash_key_file,
               "cluster key of the block hash; default: a public constant");
  cli::AddFlag(app, "stall-limit", raw.stall_limit,
               "a stream whose reader takes nothing for so long is cancelled");
  cli::AddFlag(app, "drain-limit", raw.drain_limit, "how long requests may go on after SIGTERM");
  cli::AddFlag(app, "watchdog", raw.watchdog,
               "a step longer than this, and than 20 times what is predicted of it, ends the process");
}

void AddEngine(CLI::App& app, Flags& flags, Raw& raw) {
  cli::AddFlag(
      app, "device", flags.device,
      "cpu, or sim: takes the time that a model would, reads no weights and answers with random text;\n"
      "cuda and cuda-emu are not built yet");
  cli::AddFlag(
      app, "sim-model", flags.sim_model,
      "how long steps of --device=sim take: JSON of `qanat bench fit --out`; default: as SmolLM2-135M\n"
      "Q4_1 on two cores of Emerald Rapids");
  cli::AddFlag(app, "step-log", flags.step_log, "write each step to this CSV file, for `qanat bench fit`");
  cli::AddFlag(app, "threads", raw.threads, "compute threads; 0: all of the cpuset");
  cli::AddFlag(app, "kernels", flags.backend.kernels,
               "auto, avx512, avx2, scalar or reference (float32, float32 KV cache)");
  cli::AddFlag(app, "context-length", raw.context_length,
               "tokens that prompt and answer may have together; 0: as many as the model allows");
  cli::AddFlag(app, "kv-dtype", raw.kv_dtype,
               "bf16, float32 (twice the memory), or auto: bf16, but float32 for the reference kernels");
  cli::AddFlag(app, "kv-blocks", raw.kv_blocks, "blocks of the KV cache; 0: from --kv-memory");
  cli::AddFlag(app, "kv-memory", raw.kv_memory,
               "bytes of the KV cache (K, M, G: powers of 1024); 0: half of free memory");
  cli::AddFlag(app, "block-size", raw.block_size, "tokens a block: 16");
  cli::AddFlag(app, "max-batch-tokens", raw.max_batch_tokens, "tokens a step");
  cli::AddFlag(app, "max-seqs", raw.max_seqs, "sequences that run at once");
  cli::AddFlag(app, "chunk-tokens", raw.chunk_tokens, "prompt tokens of one sequence a step");
  cli::AddFlag(app, "queue-requests", raw.queue_requests, "requests that may wait");
  cli::AddFlag(app, "queue-tokens", raw.queue_tokens, "prompt tokens that may wait");
  cli::AddFlag(app, "prefix-cache", raw.prefix_cache, "on or off");
  cli::AddFlag(app, "batching", raw.batching,
               "continuous; to compare with: static (nobody joins until the whole batch has ended, who has\n"
               "ended is computed until then) or static-compacted (who has ended is not computed any more)");
  cli::AddFlag(
      app, "kv", raw.kv,
      "paged; to compare with: contiguous (the longest case is reserved as one run of blocks; needs\n"
      "--prefix-cache=off)");
  cli::AddFlag(app, "speculation", raw.speculation,
               "lookup (drafts from the text so far; the same bytes) or off");
  cli::AddFlag(app, "inter-token-target", raw.inter_token_target,
               "bound on a step's predicted time while sequences decode in it, or off");
  cli::AddFlag(app, "class-defaults", raw.class_defaults,
               "when a request without a deadline is due: interactive,standard,batch");
}

void AddUnbuilt(CLI::App& app, Raw& raw) {
  cli::AddFlag(app, "eviction", raw.eviction, "lru; adaptive is not built yet");
  cli::AddFlag(app, "tensor-parallel-size", raw.tensor_parallel_size, "1; more is not built yet");
  cli::AddFlag(app, "rank", raw.rank, "0; not built yet");
  cli::AddFlag(app, "leader", raw.leader, "not built yet");
  cli::AddFlag(app, "cluster-token-file", raw.cluster_token_file,
               "not built yet: Sessions come from loopback only");
  cli::AddFlag(app, "deterministic", raw.deterministic, "for GPUs only: a CPU always is");
}

absl::Status CheckBuilt(const Raw& raw, const Flags& flags) {
  const struct {
    const char* flag;
    const std::string& value;
    std::string built;
  } kOnly[] = {
      {"--eviction", raw.eviction, "lru"},
      {"--tensor-parallel-size", raw.tensor_parallel_size, "1"},
      {"--rank", raw.rank, "0"},
      {"--leader", raw.leader, ""},
      {"--cluster-token-file", raw.cluster_token_file, ""},
  };
  for (const auto& only : kOnly) {
    if (only.value == only.built) continue;
    return absl::UnimplementedError(
        absl::StrCat(only.flag, "=", only.value, " is not built yet",
                     only.built.empty() ? "" : absl::StrCat("; it is ", only.built)));
  }
  if (raw.deterministic)
    return absl::UnimplementedError("--deterministic is for GPUs, which are not built yet");
  return absl::OkStatus();
}

absl::Status ReadClassDefaults(const std::string& text, std::array<Duration, 3>& defaults) {
  const std::vector<std::string> parts = CLI::detail::split(text, ',');
  if (parts.size() != defaults.size()) {
    return absl::InvalidArgumentError(
        "--class-defaults: three durations are needed: interactive,standard,batch");
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    QANAT_RETURN_IF_ERROR(cli::ReadDuration("--class-defaults", parts[i], defaults[i]));
  }
  return absl::OkStatus();
}

absl::Status ReadNumbers(const Raw& raw, Flags& flags) {
  engine::EngineOptions& engine = flags.engine;
  QANAT_RETURN_IF_ERROR(cli::ReadNumber("--threads", raw.threads, flags.backend.threads));
  QANAT_RETURN_IF_ERROR(cli::ReadNumber("--context-length", raw.context_length, engine.context_length));
  QANAT_RETURN_IF_ERROR(cli::ReadNumber("--kv-blocks", raw.kv_blocks, engine.num_blocks));
  QANAT_RETURN_IF_ERROR(cli::ReadNumber("--kv-memory", raw.kv_memory, flags.kv_memory));
  QANAT_RETURN_IF_ERROR(cli::ReadNumber("--block-size", raw.block_size, engine.block_size));
  QANAT_RETURN_IF_ERROR(cli::ReadNumber("--max-batch-tokens", raw.max_batch_tokens, engine.max_batch_tokens));
  QANAT_RETURN_IF_ERROR(cli::ReadNumber("--max-seqs", raw.max_seqs, engine.max_seqs));
  QANAT_RETURN_IF_ERROR(cli::ReadNumber("--chunk-tokens", raw.chunk_tokens, engine.chunk_tokens));
  QANAT_RETURN_IF_ERROR(cli::ReadNumber("--queue-requests", raw.queue_requests, engine.queue_requests));
  QANAT_RETURN_IF_ERROR(cli::ReadNumber("--queue-tokens", raw.queue_tokens, engine.queue_tokens));
  engine.inter_token_target = Duration::zero();
  if (raw.inter_token_target != "off") {
    QANAT_RETURN_IF_ERROR(
        cli::ReadDuration("--inter-token-target", raw.inter_token_target, engine.inter_token_target));
  }
  QANAT_RETURN_IF_ERROR(ReadClassDefaults(raw.class_defaults, engine.class_defaults));
  QANAT_RETURN_IF_ERROR(cli::ReadDuration("--stall-limit", raw.stall_limit, engine.stall_limit));
  QANAT_RETURN_IF_ERROR(cli::ReadDuration("--drain-limit", raw.drain_limit, flags.drain_limit));
  return cli::ReadDuration("--watchdog", raw.watchdog, flags.watchdog);
}

absl::Status ReadKvDtype(const std::string& text, backend::CpuBackendOptions& backend) {
  const bool reference = backend.kernels == "reference";
  backend.float_cache = text == "float32" || (text == "auto" && reference);
  if (backend.float_cache || text == "auto" || (text == "bf16" && !reference)) return absl::OkStatus();
  if (text == "bf16")
    return absl::InvalidArgumentError("--kv-dtype: the reference kernels' cache is float32");
  if (text == "int8") return absl::UnimplementedError("--kv-dtype=int8 is not built yet");
  return absl::InvalidArgumentError(
      absl::StrCat("--kv-dtype: '", text, "' is not auto, bf16, float32 or int8"));
}

// What an old server did, for comparison.
absl::Status ReadModes(const Raw& raw, engine::EngineOptions& engine) {
  using engine::Batching;
  if (raw.batching == "static") {
    engine.batching = Batching::kStatic;
  } else if (raw.batching == "static-compacted") {
    engine.batching = Batching::kStaticCompacted;
  } else if (raw.batching != "continuous") {
    return absl::InvalidArgumentError(
        absl::StrCat("--batching: '", raw.batching, "' is not continuous, static or static-compacted"));
  }
  if (raw.kv != "paged" && raw.kv != "contiguous") {
    return absl::InvalidArgumentError(absl::StrCat("--kv: '", raw.kv, "' is not paged or contiguous"));
  }
  engine.kv_layout = raw.kv == "paged" ? kv::Layout::kPaged : kv::Layout::kContiguous;
  return absl::OkStatus();
}

absl::Status CheckDevice(const Flags& flags) {
  if (flags.device == "cuda" || flags.device == "cuda-emu") {
    return absl::UnimplementedError(
        absl::StrCat("--device=", flags.device, " is not built yet; it is cpu or sim"));
  }
  if (flags.device != "cpu" && flags.device != "sim") {
    return absl::InvalidArgumentError(absl::StrCat("--device: '", flags.device, "' is not cpu or sim"));
  }
  if (flags.device != "sim" && !flags.sim_model.empty()) {
    return absl::InvalidArgumentError("--sim-model is for --device=sim");
  }
  return backend::CheckKernels(flags.backend.kernels);
}

absl::Status Check(const Raw& raw, Flags& flags) {
  if (flags.model.empty()) return absl::InvalidArgumentError("--model is required: a GGUF file");
  QANAT_RETURN_IF_ERROR(CheckBuilt(raw, flags));
  QANAT_RETURN_IF_ERROR(CheckDevice(flags));
  QANAT_RETURN_IF_ERROR(ReadNumbers(raw, flags));
  QANAT_RETURN_IF_ERROR(ReadKvDtype(raw.kv_dtype, flags.backend));
  if (raw.prefix_cache != "on" && raw.prefix_cache != "off") {
    return absl::InvalidArgumentError(
        absl::StrCat("--prefix-cache: '", raw.prefix_cache, "' is not on or off"));
  }
  flags.engine.prefix_cache = raw.prefix_cache == "on";
  if (raw.speculation != "lookup" && raw.speculation != "off") {
    return absl::InvalidArgumentError(
        absl::StrCat("--speculation: '", raw.speculation, "' is not lookup or off"));
  }
  flags.engine.speculation = raw.speculation == "lookup";
  QANAT_RETURN_IF_ERROR(ReadModes(raw, flags.engine));
  if (flags.model_id.empty()) flags.model_id = flags.model.substr(flags.model.rfind('/') + 1);
  if (flags.engine.num_blocks > 0 && flags.kv_memory > 0) {
    return absl::InvalidArgumentError("--kv-memory: the pool's size is given by --kv-blocks already");
  }
  // With the smallest context and pool: those that the model gives are checked with it.
  engine::EngineOptions known = flags.engine;
  if (known.context_length == 0) known.context_length = engine::kMinContext;
  known.num_blocks = std::max(known.num_blocks, 1);
  return known.Validate();
}

}  // namespace

std::optional<int> ParseFlags(int argc, char** argv, Flags& flags) {
  CLI::App app("A worker of a Qanat cluster: serves one model.", "qanat-worker");
  app.footer(kFooter);
  Raw raw;
  AddServing(app, flags, raw);
  AddEngine(app, flags, raw);
  AddUnbuilt(app, raw);
  return cli::Parse(app, argc, argv, [&] { return Check(raw, flags); });
}

}  // namespace qanat::worker
