#include "common/rpc/options.h"

#include <chrono>
#include <optional>

#include "gtest/gtest.h"

namespace qanat::rpc {
namespace {

TEST(OptionsTest, KnowsLoopbackPeers) {
  for (const char* peer :
       {"ipv4:127.0.0.1:4711", "ipv4:127.8.8.8:1", "ipv6:[::1]:4711", "ipv6:%5B::1%5D:4711",
        "ipv6:[::ffff:127.0.0.1]:1", "ipv6:%5B::ffff:127.0.0.1%5D:1", "unix:", "unix:path"}) {
    EXPECT_TRUE(IsLoopbackPeer(peer)) << peer;
  }
  for (const char* peer : {"", "ipv4:10.0.0.1:127", "ipv4:128.0.0.1:1", "ipv6:[::12]:1", "ipv6:%5B::2%5D:1",
                           "ipv6:[fe80::1]:1", "dns:localhost", "127.0.0.1:1"}) {
    EXPECT_FALSE(IsLoopbackPeer(peer)) << peer;
  }
}

// A clock that stands still.
class StoppedClock final : public Clock {
 public:
  Time Now() const override { return Time(std::chrono::hours(1)); }
};

TEST(OptionsTest, ADeadlineHoldsWhateverTimeIsLeft) {
  const StoppedClock clock;
  EXPECT_EQ(DeadlineIn(std::chrono::seconds(5), clock), clock.Now() + std::chrono::seconds(5));
  EXPECT_EQ(DeadlineIn(-std::chrono::seconds(5), clock), clock.Now() - std::chrono::seconds(5));
  EXPECT_EQ(DeadlineIn(Duration::max(), clock), std::nullopt);
  const std::optional<Time> past = DeadlineIn(Duration::min(), clock);
  ASSERT_TRUE(past.has_value());
  EXPECT_LT(*past - clock.Now(), Duration::zero()) << "the difference fits, too";
}

TEST(OptionsTest, GivesACallTheTimeThatIsLeft) {
  const StoppedClock clock;
  grpc::ClientContext context;
  const auto before = std::chrono::system_clock::now();
  SetDeadline(context, clock.Now() + std::chrono::seconds(100), clock);
  const auto left = context.deadline() - before;
  EXPECT_GE(left, std::chrono::milliseconds(99'900));
  EXPECT_LT(left, std::chrono::seconds(110));

  grpc::ClientContext unlimited;
  SetDeadline(unlimited, std::nullopt, clock);
  EXPECT_EQ(unlimited.deadline(), std::chrono::system_clock::time_point::max());
}

}  // namespace
}  // namespace qanat::rpc
