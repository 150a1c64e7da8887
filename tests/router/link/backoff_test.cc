#include "router/link/backoff.h"

#include <algorithm>
#include <set>

#include "gtest/gtest.h"

namespace qanat::router {
namespace {

using std::chrono::milliseconds;

TEST(BackoffTest, DoublesUpToTheLongestDelay) {
  Backoff backoff(milliseconds(100), milliseconds(500), 1);
  for (const int bound : {100, 200, 400, 500, 500, 500}) {
    const Duration delay = backoff.Next();
    EXPECT_GE(delay, milliseconds(bound) / 2);
    EXPECT_LE(delay, milliseconds(bound));
  }
}

TEST(BackoffTest, ResetBeginsAgain) {
  Backoff backoff(milliseconds(100), milliseconds(500), 1);
  for (int i = 0; i < 5; ++i) backoff.Next();
  backoff.Reset();
  EXPECT_LE(backoff.Next(), milliseconds(100));
}

TEST(BackoffTest, RoutersDoNotComeBackTogether) {
  std::set<Duration> delays;
  for (uint64_t seed = 0; seed < 20; ++seed)
    delays.insert(Backoff(milliseconds(100), milliseconds(500), seed).Next());
  EXPECT_GE(delays.size(), 15u);
}

}  // namespace
}  // namespace qanat::router
