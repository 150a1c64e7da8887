// `qanat bench engine`: how fast the engine is by itself, without gRPC.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace qanat::tools {

struct BenchEngineOptions {
  std::string model;             // GGUF file
  int threads = 0;               // 0: all of the cpuset
  std::string kernels = "auto";  // as qanat-worker's --kernels
  int rounds = 3;                // of every row, interleaved; medians are reported
  bool json = false;
};

// Runs three rows on the real model and prints them: prefill of 512 tokens, decode of one stream, and 16
// streams of 128 + 64 tokens. The prefix cache is off and no generation ends early.
absl::Status RunBenchEngine(const BenchEngineOptions& options);

}  // namespace qanat::tools
