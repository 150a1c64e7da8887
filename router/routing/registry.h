// Policies by name.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "router/routing/policy.h"

namespace qanat::router {

inline constexpr std::string_view kDefaultPolicy = "least_loaded";

// UNIMPLEMENTED for a name of the contract that this build does not have, INVALID_ARGUMENT for any other;
// both list what there is.
absl::StatusOr<std::unique_ptr<RoutingPolicy>> MakePolicy(std::string_view name);

}  // namespace qanat::router
