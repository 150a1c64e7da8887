// `qanat bench chart`: measurements as a picture.
#pragma once

#include <functional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace qanat::tools {

// Adds the subcommand to `bench`; what it returns runs it, if it was asked for.
std::function<absl::Status()> AddBenchChart(CLI::App& bench);

// UNAVAILABLE: it cannot be written.
absl::Status WriteFile(const std::string& path, const std::string& text);

}  // namespace qanat::tools
