// `qanat bench predict`: how well a simulated device stands for this machine.
#pragma once

#include <functional>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace qanat::tools {

// Adds the subcommand to `bench`; what it returns runs it, if it was asked for.
std::function<absl::Status()> AddBenchPredict(CLI::App& bench);

}  // namespace qanat::tools
