// `qanat bench serve`: a load on a running router or worker, and what it answered.
#pragma once

#include <functional>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace qanat::tools {

// Adds the subcommand to `bench`; what it returns runs it, if it was asked for.
std::function<absl::Status()> AddBenchServe(CLI::App& bench);

}  // namespace qanat::tools
