// All scenarios in all their modes, a round after the other.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "tools/qanat/claims/measure_mode.h"
#include "tools/qanat/claims/report.h"
#include "tools/qanat/claims/scenario.h"

namespace qanat::tools::claims {

// Each round measures every mode and reckons what its form gives, from that round's lengths and prices: those
// of its own steps, and of prompts in the mode that is continuous and paged without a prefix cache. Says on
// standard error where it is. INTERNAL as RunWorkload. REQUIRES: rounds have the same scenarios but for order
// of lengths and tokens, each with that mode.
absl::StatusOr<Report> RunRounds(const std::vector<std::vector<Scenario>>& rounds, const Bed& bed);

}  // namespace qanat::tools::claims
