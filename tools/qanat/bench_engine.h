// `qanat bench engine`: how fast the engine is by itself, without gRPC.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/qanat/local_model.h"

namespace qanat::tools {

// What can be measured:
//   prefill  a prompt of 512 tokens
//   decode   128 tokens of each stream; time counts from when all streams have their first token
//   drafts   the same of one stream, with drafts by prompt lookup; then, without drafts and with them:
//            sampled, which hardly repeats itself (1 stream and 4), and a prompt that says 128 tokens
//            three times
//   mix      streams of 128 + 64 tokens, prompts and answers together
//   shared   64 requests of 8 groups: 512 tokens that the group shares, 32 of its own, 32 generated;
//            the prefix cache is on and empty
//   gap      four streams decode while a prompt of eight thousand tokens (less in a shorter context) is
//            prefilled
const std::vector<std::string>& BenchEngineRows();

struct BenchEngineOptions {
  LocalModelOptions local;
  int rounds = 3;                                // of every row, interleaved; medians are reported
  std::vector<int> streams = {1, 4, 8, 16, 32};  // of the rows decode and mix
  std::vector<std::string> rows = BenchEngineRows();
  std::string step_log;  // a file for the steps of the rows but `gap`; empty: none
  bool json = false;
};

// Runs the rows on the real model and prints tokens a second. But for `shared` the prefix cache is off; no
// generation ends early.
absl::Status RunBenchEngine(const BenchEngineOptions& options);

}  // namespace qanat::tools
