#include "router/routing/registry.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qanat::router {
namespace {

using testing::HasSubstr;

TEST(PolicyRegistryTest, MakesEachPolicyByItsName) {
  for (const char* name : {"round_robin", "least_loaded", "power_of_two", "consistent_hash", "overlap_argmax",
                           "linear_cost", "weighted_sum", "prefix_cost"}) {
    const auto policy = MakePolicy(name);
    ASSERT_TRUE(policy.ok()) << policy.status();
    EXPECT_EQ((*policy)->name(), name);
  }
  EXPECT_TRUE(MakePolicy(kDefaultPolicy).ok());
}

TEST(PolicyRegistryTest, RefusesUnknownNamesAndSaysWhatThereIs) {
  const auto policy = MakePolicy("fastest");
  EXPECT_TRUE(absl::IsInvalidArgument(policy.status()));
  EXPECT_THAT(std::string(policy.status().message()), HasSubstr("round_robin, least_loaded, power_of_two"));
}

}  // namespace
}  // namespace qanat::router
