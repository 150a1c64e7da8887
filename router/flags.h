// The command line of qanat-router.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "router/admission/admission.h"

namespace qanat::router {

struct Flags {
  std::vector<std::string> workers;  // HOST:PORT
  std::string listen = "127.0.0.1:50051";
  std::string metrics_listen = "127.0.0.1:0";
  std::string health_listen = "127.0.0.1:0";
  std::string policy;         // known to MakePolicy
  std::string hash_key_file;  // empty: the public key
  AdmissionOptions admission;
};

// Reads flags, environment (QANAT_<NAME>) and --config FILE, in this order of precedence, and starts the log.
// Set: the process ends with it, all said: 0 after --help, --version and --print-config, 2 after a mistake.
std::optional<int> ParseFlags(int argc, char** argv, Flags& flags);

}  // namespace qanat::router
