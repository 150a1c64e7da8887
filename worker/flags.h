// The command line of qanat-worker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "worker/backend/cpu_backend.h"
#include "worker/engine/engine_options.h"

namespace qanat::worker {

struct Flags {
  std::string model;     // path
  std::string model_id;  // what callers write in `model`; ParseFlags fills in the file's name
  std::string listen = "127.0.0.1:50061";
  std::string metrics_listen = "127.0.0.1:0";
  std::string health_listen = "127.0.0.1:0";
  std::string hash_key_file;   // empty: the public key
  std::string device = "cpu";  // or "sim"
  std::string sim_model;       // of the simulated device: a file, or empty for sim::kReferenceDevice
  std::string step_log;        // a file; empty: none
  backend::CpuBackendOptions backend;
  // engine.num_blocks 0: from kv_memory; engine.context_length 0: the model's.
  engine::EngineOptions engine;
  int64_t kv_memory = 0;  // bytes; 0: half of free memory
  Duration drain_limit = std::chrono::seconds(30);
  Duration watchdog = std::chrono::seconds(10);
};

// Reads flags, environment (QANAT_<NAME>) and --config FILE, in this order of precedence, and starts the log.
// Set: the process ends with it, all said: 0 after --help, --version and --print-config, 2 after a mistake.
std::optional<int> ParseFlags(int argc, char** argv, Flags& flags);

}  // namespace qanat::worker
