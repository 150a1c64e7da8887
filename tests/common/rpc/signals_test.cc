#include "common/rpc/signals.h"

#include <chrono>
#include <csignal>

#include "gtest/gtest.h"

namespace qanat::rpc {
namespace {

TEST(SignalsTest, WaitReturnsASignalThatCameBefore) {
  TerminationSignals signals;
  raise(SIGTERM);
  EXPECT_EQ(signals.Wait(), SIGTERM);
  raise(SIGINT);
  EXPECT_EQ(signals.Wait(), SIGINT);
}

TEST(SignalsTest, WaitForEndsWithASignalOrItsTime) {
  TerminationSignals signals;
  EXPECT_EQ(signals.WaitFor(std::chrono::milliseconds(1)), 0);
  raise(SIGTERM);
  EXPECT_EQ(signals.WaitFor(std::chrono::hours(1)), SIGTERM);
}

}  // namespace
}  // namespace qanat::rpc
