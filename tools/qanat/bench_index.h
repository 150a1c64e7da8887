// `qanat bench index`: how fast the router's index and its choice are by themselves.
#pragma once

#include <vector>

#include "absl/status/status.h"

namespace qanat::tools {

struct BenchIndexOptions {
  int workers = 8;
  int blocks = 65'536;                        // that each holds
  std::vector<int> tokens = {8192, 100'000};  // lengths of prompts
  bool json = false;
};

// For each length of prompts: fills an index so that every worker holds `blocks` blocks, of each prompt a
// beginning of random depth, and prints what a distinct block costs, updates a second of one thread, and the
// time of a decision of prefix_cost, from the tokens to the worker, while another thread stores and removes
// blocks as fast as it can.
absl::Status RunBenchIndex(const BenchIndexOptions& options);

}  // namespace qanat::tools
