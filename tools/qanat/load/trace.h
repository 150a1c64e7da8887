// Recorded traffic: who asked when, how long the prompts and the answers were and what the prompts shared.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/qanat/load/traffic.h"

namespace qanat::tools {

// The first `limit` requests of a trace (0: all), each a session of one turn, in order of arrival; the first
// comes at 0. The first line tells the format:
//   Mooncake   a JSON object a line: `timestamp` in ms, `input_length`, `output_length`, and `hash_ids`, one
//   a
//              block of 512 tokens: equal ids, equal prompts up to and including that block
//   Azure      CSV with the header TIMESTAMP,ContextTokens,GeneratedTokens; tells nothing of what prompts
//   share,
//              so they share nothing
// INVALID_ARGUMENT naming the line that is neither; NOT_FOUND for a file that cannot be opened.
absl::StatusOr<std::vector<Session>> ReadTrace(const std::string& path, int limit);
absl::StatusOr<std::vector<Session>> ParseTrace(std::istream& lines, int limit);

}  // namespace qanat::tools
