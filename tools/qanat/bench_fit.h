// `qanat bench fit`: from logs of steps to a step model.
#pragma once

#include <functional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "tools/qanat/step_fit.h"

namespace qanat::tools {

// Adds the subcommand to `bench`; what it returns runs it, if it was asked for.
std::function<absl::Status()> AddBenchFit(CLI::App& bench);

// The coefficients as sim::ReadStepModel reads them, and the errors.
nlohmann::ordered_json ToJson(const StepFit& fit);
// For people, with units.
void Print(const StepFit& fit);

}  // namespace qanat::tools
