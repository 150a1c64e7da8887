#include "router/routing/registry.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "router/routing/consistent_hash.h"
#include "router/routing/least_loaded.h"
#include "router/routing/linear_cost.h"
#include "router/routing/overlap_argmax.h"
#include "router/routing/power_of_two.h"
#include "router/routing/prefix_cost.h"
#include "router/routing/round_robin.h"
#include "router/routing/weighted_sum.h"

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
    {"round_robin", &Make<RoundRobin>},       {"least_loaded", &Make<LeastLoaded>},
    {"power_of_two", &Make<PowerOfTwo>},      {"consistent_hash", &Make<ConsistentHash>},
    {"overlap_argmax", &Make<OverlapArgmax>}, {"linear_cost", &Make<LinearCost>},
    {"weighted_sum", &Make<WeightedSum>},     {"prefix_cost", &Make<PrefixCost>},
};

std::string Known() {
  return absl::StrJoin(kPolicies, ", ",
                       [](std::string* out, const Entry& entry) { out->append(entry.name); });
}

}  // namespace

absl::StatusOr<std::unique_ptr<RoutingPolicy>> MakePolicy(std::string_view name) {
  for (const Entry& entry : kPolicies) {
    if (entry.name == name) return entry.make();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no policy is named ", std::string(name), "; there are: ", Known()));
}

}  // namespace qanat::router
