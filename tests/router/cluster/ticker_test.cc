#include "router/cluster/ticker.h"

#include <atomic>
#include <chrono>

#include "gtest/gtest.h"

namespace qanat::router {
namespace {

TEST(TickerTest, TicksUntilItsEnd) {
  Mutex mu;
  CondVar changed;
  int ticks = 0;
  {
    const Ticker ticker(std::chrono::microseconds(100), [&] {
      MutexLock lock(mu);
      ++ticks;
      changed.NotifyAll();
    });
    MutexLock lock(mu);
    while (ticks < 3) changed.Wait(mu);
  }
  EXPECT_GE(ticks, 3);
}

TEST(TickerTest, ItsEndDoesNotWaitForThePeriod) {
  std::atomic<int> ticks = 0;
  const auto before = std::chrono::steady_clock::now();
  {
    const Ticker ticker(std::chrono::hours(1), [&] { ++ticks; });
  }
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::minutes(1));
  EXPECT_EQ(ticks, 0);
}

}  // namespace
}  // namespace qanat::router
