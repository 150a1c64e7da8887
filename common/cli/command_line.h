// What the command lines of the two servers share. Only their flags.cc include it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "common/base/clock.h"

namespace qanat::cli {

// Exit status of a mistake in the flags.
inline constexpr int kMistake = 2;

// Adds --NAME, which is also QANAT_<NAME> in the environment and a key of the --config file.
void AddFlag(CLI::App& app, const std::string& name, std::string& value, const std::string& help);
// One without a value, or true or false.
void AddFlag(CLI::App& app, const std::string& name, bool& value, const std::string& help);

// Reads flags, environment and --config FILE (QANAT_CONFIG), in this order of precedence, runs `check`, and
// starts the log as --log-format and --log-level say, which it adds. A key of the file that is no flag is a
// mistake. Set: the process ends with it, all said: 0 after --help, --version and --print-config, kMistake
// after a mistake. The app's name is the program's.
std::optional<int> Parse(CLI::App& app, int argc, char** argv, const std::function<absl::Status()>& check);

// A whole number with an optional K, M, G or T, at most `most`. INVALID_ARGUMENT naming the flag.
absl::Status ReadNumber(const char* flag, const std::string& text, int64_t most, int64_t& value);

template <typename Int>
absl::Status ReadNumber(const char* flag, const std::string& text, Int& value) {
  int64_t number = 0;
  absl::Status status = ReadNumber(flag, text, std::numeric_limits<Int>::max(), number);
  if (status.ok()) value = static_cast<Int>(number);
  return status;
}

// A duration above 0. INVALID_ARGUMENT naming the flag.
absl::Status ReadDuration(const char* flag, const std::string& text, Duration& value);

// UNIMPLEMENTED: `what` is not built yet.
absl::Status NotBuilt(const std::string& what);

}  // namespace qanat::cli
