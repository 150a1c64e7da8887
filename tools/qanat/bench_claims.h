// `qanat bench claims`: what continuous batching, pages and shared prefixes are worth, a step at a time.
#pragma once

#include <functional>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace qanat::tools {

// Adds the subcommand to `bench`; what it returns runs it, if it was asked for.
std::function<absl::Status()> AddBenchClaims(CLI::App& bench);

}  // namespace qanat::tools
