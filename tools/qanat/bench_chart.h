// `qanat bench chart`: measurements as a picture.
#pragma once

#include <functional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace qanat::tools {

// Adds the subcommand to `bench`; what it returns runs it, if it was asked for.
std::function<absl::Status()> AddBenchChart(CLI::App& bench);

// Before long work: INVALID_ARGUMENT, of the command line, naming the flag, when the file cannot be written.
// What stands there stays; one that is new is left empty.
absl::Status CheckWritable(const std::string& flag, const std::string& path);

// INTERNAL: it cannot be written.
absl::Status WriteFile(const std::string& path, const std::string& text);

}  // namespace qanat::tools
