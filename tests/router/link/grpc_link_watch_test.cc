// The watch beside the session: where it begins, what ends it, and what that ends.
#include <string>

#include "common/api/watch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/router/link/grpc_link_fixture.h"

namespace qanat::router {
namespace {

using testing::HasSubstr;

using GrpcLinkWatchTest = GrpcLinkFixture;

cluster::v1::WatchResponse LoadFrame(uint64_t epoch, uint64_t seq) {
  return api::ToProto({epoch, seq, api::Load{}});
}

TEST_F(GrpcLinkWatchTest, WatchesTheWorkerFromWhereTheObserverIs) {
  observer_.HoldFrom({.epoch = 1, .seq = 40});
  OpenReadyLink();
  const cluster::v1::WatchRequest request = worker_->NextWatch();
  EXPECT_EQ(request.router_id(), 0xabu);
  EXPECT_EQ(request.known_epoch(), 1u);
  EXPECT_EQ(request.known_seq(), 40u);
  worker_->SendFrame(LoadFrame(1, 42));
  worker_->SendFrame(cluster::v1::WatchResponse());  // of a later release
  worker_->SendFrame(LoadFrame(1, 44));
  EXPECT_TRUE(journal_.Await("frame 1/42"));
  EXPECT_TRUE(journal_.Await("frame 1/44"));
}

TEST_F(GrpcLinkWatchTest, AFrameThatTheObserverRefusesBeginsAnotherWatchAndNothingElse) {
  const CallId id = StartHeldCall();
  EXPECT_EQ(worker_->NextWatch().known_seq(), 0u);
  worker_->SendFrame(LoadFrame(1, 3));
  observer_.HoldFrom({.epoch = 1, .seq = 2});
  EXPECT_EQ(worker_->NextWatch().known_seq(), 2u);
  worker_->SendFrame(LoadFrame(1, 6));
  EXPECT_TRUE(journal_.Await("frame 1/6"));
  worker_->SendEnd(id, absl::OkStatus());
  EXPECT_TRUE(journal_.Await("a end OK"));
  for (const std::string& entry : journal_.entries())
    EXPECT_THAT(entry, testing::Not(HasSubstr("watch end")));
}

TEST_F(GrpcLinkWatchTest, AWatchThatBreaksIsBegunAgainWhileTheSessionGoesOn) {
  const CallId id = StartHeldCall();
  EXPECT_EQ(worker_->NextWatch().router_id(), 0xabu);
  worker_->BreakWatch();
  EXPECT_TRUE(journal_.Await("watch end UNAVAILABLE"));
  EXPECT_EQ(worker_->NextWatch().router_id(), 0xabu);
  worker_->SendEnd(id, absl::OkStatus());
  EXPECT_TRUE(journal_.Await("a end OK"));
}

TEST_F(GrpcLinkWatchTest, AWorkerThatTurnsOutToBeAnotherIsAskedAgainWhatItIs) {
  OpenReadyLink();
  worker_->NextWatch();
  worker_->SendFrame(LoadFrame(2, 2));
  ASSERT_TRUE(journal_.Await("frame 2/2"));
  ASSERT_TRUE(journal_.Await("down"));
  EXPECT_TRUE(journal_.Await("ready"));
}

TEST_F(GrpcLinkWatchTest, AnImpossibleFrameEndsTheWatch) {
  OpenReadyLink();
  worker_->NextWatch();
  cluster::v1::WatchResponse frame = LoadFrame(1, 2);
  frame.mutable_load()->set_running(-1);
  worker_->SendFrame(frame);
  EXPECT_TRUE(journal_.Await("watch end INVALID_ARGUMENT"));
  EXPECT_EQ(worker_->NextWatch().router_id(), 0xabu);
}

TEST_F(GrpcLinkWatchTest, AWorkerWithoutWatchServes) {
  OpenReadyLink({.watch = false});
  EXPECT_TRUE(journal_.Await("watch end UNIMPLEMENTED"));
  Start("a", Prompt("x"));
  EXPECT_TRUE(journal_.Await("a end OK"));
  EXPECT_GT(observer_.signs(), 0);
  worker_->BreakSessions();
  EXPECT_TRUE(journal_.Await("ready"));
  EXPECT_TRUE(journal_.Await("watch end UNIMPLEMENTED")) << "it is asked again with each session";
}

TEST_F(GrpcLinkWatchTest, TheWatchEndsWithTheSession) {
  OpenReadyLink();
  worker_->NextWatch();
  Start("a", Prompt("x"));
  worker_->NextStart();
  worker_->BreakSessions();
  ASSERT_TRUE(journal_.Await("down"));
  ASSERT_TRUE(journal_.Await("ready"));
  EXPECT_EQ(worker_->NextWatch().router_id(), 0xabu);
}

}  // namespace
}  // namespace qanat::router
