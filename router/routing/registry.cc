#include "router/routing/registry.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "router/routing/least_loaded.h"
#include "router/routing/round_robin.h"

namespace qanat::router {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<RoutingPolicy> (*make)();
};

template <typename Policy>
std::unique_ptr<RoutingPolicy> Make() {
  return std::make_unique<Policy>();
}

constexpr Entry kPolicies[] = {
    {"least_loaded", &Make<LeastLoaded>},
    {"round_robin", &Make<RoundRobin>},
};

// Names that the contract gives to policies of later releases.
constexpr std::string_view kPlanned[] = {"power_of_two", "consistent_hash", "overlap_argmax",
                                         "linear_cost",  "weighted_sum",    "prefix_cost"};

std::string Known() {
  return absl::StrJoin(kPolicies, ", ",
                       [](std::string* out, const Entry& entry) { out->append(entry.name); });
}

}  // namespace

absl::StatusOr<std::unique_ptr<RoutingPolicy>> MakePolicy(std::string_view name) {
  for (const Entry& entry : kPolicies) {
    if (entry.name == name) return entry.make();
  }
  const std::string text(name);
  if (std::find(std::begin(kPlanned), std::end(kPlanned), name) != std::end(kPlanned)) {
    return absl::UnimplementedError(absl::StrCat("policy ", text, " is not built yet; there are: ", Known()));
  }
  return absl::InvalidArgumentError(absl::StrCat("no policy is named ", text, "; there are: ", Known()));
}

}  // namespace qanat::router
