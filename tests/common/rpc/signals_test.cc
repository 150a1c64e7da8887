#include "common/rpc/signals.h"

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

}  // namespace
}  // namespace qanat::rpc
