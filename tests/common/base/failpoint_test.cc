#include "common/base/failpoint.h"

#include <vector>

#include "gtest/gtest.h"

namespace qanat {
namespace {

int Count(int passages) {
  int fired = 0;
  for (int i = 0; i < passages; ++i) fired += QANAT_FAILPOINT("test.point") ? 1 : 0;
  return fired;
}

TEST(FailpointTest, FiresOnlyWhileItIsArmed) {
  EXPECT_EQ(Count(10), 0);
  {
    const ScopedFailpoint armed("test.point");
    EXPECT_EQ(Count(10), 10);
    EXPECT_EQ(armed.fired(), 10);
  }
  EXPECT_EQ(Count(10), 0);
}

TEST(FailpointTest, SkipsAndStops) {
  const ScopedFailpoint armed("test.point", {.skip = 3, .times = 2});
  EXPECT_EQ(Count(3), 0);
  EXPECT_EQ(Count(10), 2);
}

TEST(FailpointTest, DrawsTheSameFromTheSameSeed) {
  std::vector<bool> first;
  for (int round = 0; round < 2; ++round) {
    const ScopedFailpoint armed("test.point", {.probability = 0.25, .seed = 7});
    std::vector<bool> fires;
    for (int i = 0; i < 1000; ++i) fires.push_back(QANAT_FAILPOINT("test.point"));
    EXPECT_NEAR(armed.fired(), 250, 60);
    if (round == 0) first = fires;
    EXPECT_EQ(fires, first);
  }
}

}  // namespace
}  // namespace qanat
