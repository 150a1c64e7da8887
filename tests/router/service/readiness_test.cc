#include "router/service/readiness.h"

#include <memory>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/rpc/options.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_worker_link.h"
#include "tests/fakes/health_probe.h"

namespace qanat::router {
namespace {

using fakes::ProbeHealth;

constexpr int kServing = 1;
constexpr int kNotServing = 2;

class ReadinessTest : public testing::Test {
 protected:
  ReadinessTest() {
    auto health = rpc::Server::Start({.listen = "127.0.0.1:0", .services = {}});
    EXPECT_TRUE(health.ok()) << health.status();
    health_ = *std::move(health);
    channel_ = rpc::MakeChannel(health_->address());
    readiness_ = std::make_unique<Readiness>(*health_, cluster_);
    auto link = std::make_unique<fakes::FakeWorkerLink>();
    worker_ = link.get();
    cluster_.Add("a:1", std::move(link));
  }
  ~ReadinessTest() override { cluster_.Close(); }

  RealClock clock_;
  Cluster cluster_{hash::kPublicKey, clock_, [this] { readiness_->Update(); }};
  std::unique_ptr<rpc::Server> health_;
  std::unique_ptr<Readiness> readiness_;
  std::shared_ptr<grpc::Channel> channel_;
  fakes::FakeWorkerLink* worker_ = nullptr;
};

TEST_F(ReadinessTest, IsReadyWhileAWorkerIs) {
  EXPECT_EQ(ProbeHealth(channel_, "readiness"), kNotServing);
  ASSERT_TRUE(worker_->BecomeReady().ok());
  EXPECT_EQ(ProbeHealth(channel_, "readiness"), kServing);
  worker_->Break();
  EXPECT_EQ(ProbeHealth(channel_, "readiness"), kNotServing);
}

TEST_F(ReadinessTest, IsAliveWithoutAnyWorker) { EXPECT_EQ(ProbeHealth(channel_, "liveness"), kServing); }

TEST_F(ReadinessTest, ARouterThatLeavesIsNotReadyWhateverComes) {
  ASSERT_TRUE(worker_->BecomeReady().ok());
  readiness_->Leave();
  EXPECT_EQ(ProbeHealth(channel_, "readiness"), kNotServing);
  worker_->Break();
  ASSERT_TRUE(worker_->BecomeReady().ok());
  EXPECT_EQ(ProbeHealth(channel_, "readiness"), kNotServing);
  EXPECT_EQ(ProbeHealth(channel_, "liveness"), kServing);
}

}  // namespace
}  // namespace qanat::router
