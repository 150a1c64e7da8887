#include "router/cluster/cluster.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "router/routing/least_loaded.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_worker_link.h"

namespace qanat::router {
namespace {

using fakes::FakeWorkerLink;
using fakes::MakeReadyWorker;
using testing::HasSubstr;

constexpr WorkerId kFirst{0};
constexpr WorkerId kSecond{1};

class ClusterTest : public testing::Test {
 protected:
  ~ClusterTest() override { cluster_.Close(); }

  FakeWorkerLink& Add(const std::string& address) {
    auto link = std::make_unique<FakeWorkerLink>();
    FakeWorkerLink& fake = *link;
    cluster_.Add(address, std::move(link));
    return fake;
  }
  WorkerState StateOf(WorkerId id) const { return cluster_.Snapshot().worker(id).state; }

  int changes_ = 0;
  fakes::FakeClock clock_;
  Cluster cluster_{hash::kPublicKey, clock_, [this] { ++changes_; }};
};

TEST_F(ClusterTest, AWorkerIsUsedFromWhenItIsReadyUntilItIsDown) {
  FakeWorkerLink& link = Add("a:1");
  EXPECT_EQ(StateOf(kFirst), WorkerState::kConnecting);
  EXPECT_FALSE(cluster_.TryDispatch(kFirst, 0, {}).has_value());
  ASSERT_TRUE(link.BecomeReady().ok());
  EXPECT_EQ(StateOf(kFirst), WorkerState::kReady);
  EXPECT_TRUE(cluster_.TryDispatch(kFirst, 0, {}).has_value());
  link.Break();
  EXPECT_EQ(StateOf(kFirst), WorkerState::kDown);
  EXPECT_FALSE(cluster_.TryDispatch(kFirst, 0, {}).has_value());
  ASSERT_TRUE(link.BecomeReady().ok());
  EXPECT_TRUE(cluster_.TryDispatch(kFirst, 0, {}).has_value());
}

TEST_F(ClusterTest, TellsOfChangesAndOnlyOfThem) {
  FakeWorkerLink& link = Add("a:1");
  ASSERT_TRUE(link.BecomeReady().ok());
  EXPECT_EQ(changes_, 1);
  link.Break();
  EXPECT_EQ(changes_, 2);
  link.Break();
  EXPECT_EQ(changes_, 2);
}

TEST_F(ClusterTest, ShowsWhatAWorkerTold) {
  ReadyWorker worker = MakeReadyWorker();
  worker.info.epoch = 77;
  ASSERT_TRUE(Add("a:1").BecomeReady(worker).ok());
  const ClusterSnapshot snapshot = cluster_.Snapshot();
  const Worker& shown = snapshot.worker(kFirst);
  EXPECT_EQ(shown.address, "a:1");
  EXPECT_EQ(shown.epoch, 77u);
  EXPECT_EQ(shown.total_blocks, 64);
  EXPECT_EQ(shown.max_requests, 8);
  EXPECT_EQ(shown.model->id, "tiny");
  EXPECT_EQ(shown.model->tokenizer, worker.tokenizer);
}

TEST_F(ClusterTest, WorkersOfOneModelShareOneObject) {
  ASSERT_TRUE(Add("a:1").BecomeReady().ok());
  ASSERT_TRUE(Add("b:1").BecomeReady().ok());
  const ClusterSnapshot snapshot = cluster_.Snapshot();
  EXPECT_EQ(snapshot.worker(kFirst).model, snapshot.worker(kSecond).model);
}

TEST_F(ClusterTest, AWorkerUnderAnotherHashKeyIsLeftOut) {
  FakeWorkerLink& link = Add("a:1");
  const absl::Status refused = link.BecomeReady(MakeReadyWorker(hash::HashKey{1, 2}));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--hash-key-file"));
  EXPECT_FALSE(cluster_.TryDispatch(kFirst, 0, {}).has_value());
}

TEST_F(ClusterTest, OneNameMeansOneModelWhileItIsServed) {
  FakeWorkerLink& first = Add("a:1");
  FakeWorkerLink& second = Add("b:1");
  ASSERT_TRUE(first.BecomeReady().ok());
  const ReadyWorker other = MakeReadyWorker(hash::kPublicKey, "beef");
  const absl::Status refused = second.BecomeReady(other);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("beef"));
  EXPECT_FALSE(cluster_.TryDispatch(kSecond, 0, {}).has_value());
  // The old one has left: the name is free for the new one.
  first.Break();
  ASSERT_TRUE(second.BecomeReady(other).ok());
  EXPECT_FALSE(first.BecomeReady().ok());
  EXPECT_TRUE(cluster_.TryDispatch(kSecond, 0, {}).has_value());
}

TEST_F(ClusterTest, OtherBlocksMakeAnotherModel) {
  ASSERT_TRUE(Add("a:1").BecomeReady().ok());
  ReadyWorker worker = MakeReadyWorker();
  worker.info.model.block_size = 32;
  worker.info.hash_check = api::HashCheck(hash::kPublicKey, worker.info.model_fingerprint, 32);
  EXPECT_TRUE(absl::IsFailedPrecondition(Add("b:1").BecomeReady(worker)));
}

TEST_F(ClusterTest, ADrainingWorkerGetsNothingUntilItIsReadyAgain) {
  FakeWorkerLink& link = Add("a:1");
  ASSERT_TRUE(link.BecomeReady().ok());
  cluster_.MarkDraining(kFirst);
  EXPECT_EQ(StateOf(kFirst), WorkerState::kDraining);
  EXPECT_FALSE(cluster_.TryDispatch(kFirst, 0, {}).has_value());
  link.Break();
  cluster_.MarkDraining(kFirst);  // too late: it is down
  EXPECT_EQ(StateOf(kFirst), WorkerState::kDown);
  ASSERT_TRUE(link.BecomeReady().ok());
  EXPECT_TRUE(cluster_.TryDispatch(kFirst, 0, {}).has_value());
}

TEST_F(ClusterTest, ADispatchIsInEachSnapshotWhileItLives) {
  ASSERT_TRUE(Add("a:1").BecomeReady().ok());
  std::optional<Dispatch> dispatch = cluster_.TryDispatch(kFirst, 0, {});
  ASSERT_TRUE(dispatch.has_value());
  EXPECT_EQ(dispatch->address, "a:1");
  const ClusterSnapshot before = cluster_.Snapshot();
  EXPECT_EQ(before.load(kFirst).in_flight, 1);
  dispatch.reset();
  EXPECT_EQ(cluster_.Snapshot().load(kFirst).in_flight, 0);
  EXPECT_EQ(before.load(kFirst).in_flight, 1) << "a snapshot does not change";
}

TEST_F(ClusterTest, IdleWorkersShareEqually) {
  for (const char* address : {"a:1", "b:1", "c:1"}) ASSERT_TRUE(Add(address).BecomeReady().ok());
  const LeastLoaded policy;
  RouteRequest request;
  const ClusterSnapshot snapshot = cluster_.Snapshot();
  request.model = snapshot.worker(kFirst).model.get();
  std::vector<int> served(3, 0);
  for (int i = 0; i < 300; ++i) {
    const Decision decision = policy.Pick(request, cluster_.Snapshot());
    ASSERT_TRUE(std::holds_alternative<Route>(decision));
    const auto dispatch = cluster_.TryDispatch(std::get<Route>(decision).worker, 0, {});
    ASSERT_TRUE(dispatch.has_value());
    ++served[ToIndex(dispatch->entry.worker())];
  }
  EXPECT_EQ(served, (std::vector<int>{100, 100, 100}));
}

}  // namespace
}  // namespace qanat::router
