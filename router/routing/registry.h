// Policies by name.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "router/routing/policy.h"

namespace qanat::router {

inline constexpr std::string_view kDefaultPolicy = "prefix_cost";

// INVALID_ARGUMENT for a name that no policy has; it lists what there is.
absl::StatusOr<std::unique_ptr<RoutingPolicy>> MakePolicy(std::string_view name);

}  // namespace qanat::router
