// The cluster's side of a worker's Watch: credit, trust and load, with time that the test moves.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "router/cluster/cluster.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_worker_link.h"
#include "tests/fakes/watched_worker.h"

namespace qanat::router {
namespace {

using fakes::MakeReadyWorker;
using fakes::WatchedWorker;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr WorkerId kWorker{0};

class ClusterWatchTest : public testing::Test {
 protected:
  ClusterWatchTest() {
    auto link = std::make_unique<fakes::FakeWorkerLink>();
    link_ = link.get();
    cluster_.Add("a:1", std::move(link));
    EXPECT_TRUE(link_->BecomeReady().ok());
  }
  ~ClusterWatchTest() override { cluster_.Close(); }

  void Subscribe(const WatchedWorker& worker) {
    for (const api::WatchFrame& frame : worker.Answer(link_->BeginWatch())) {
      ASSERT_EQ(link_->Tell(frame), WatchVerdict::kContinue);
    }
  }
  Worker Shown() const { return cluster_.Snapshot().worker(kWorker); }
  WorkerLoad Load() const { return cluster_.Snapshot().load(kWorker); }
  // What a decision would credit the worker with.
  bool IsCredited(hash::BlockHash block) const {
    const std::optional<HolderId> holder = Shown().holder;
    int32_t depth = 0;
    if (holder.has_value()) cluster_.index().Match({block}, {*holder}, absl::MakeSpan(&depth, 1));
    return depth == 1;
  }
  void Wait(Duration duration) {
    clock_.Advance(duration);
    cluster_.Tick();
  }

  fakes::FakeClock clock_;
  int changes_ = 0;
  Cluster cluster_{hash::kPublicKey, clock_, [this] { ++changes_; }};
  fakes::FakeWorkerLink* link_ = nullptr;
  WatchedWorker worker_{1};
};

TEST_F(ClusterWatchTest, CreditsAWorkerFromTheSnapshotsEndOn) {
  worker_.Change({10});
  const std::vector<api::WatchFrame> frames = worker_.Answer(link_->BeginWatch());
  for (const api::WatchFrame& frame : frames) {
    EXPECT_FALSE(IsCredited(10));
    link_->Tell(frame);
  }
  EXPECT_TRUE(IsCredited(10));
  EXPECT_EQ(cluster_.WatchStatus(kWorker).index_blocks, 1);
  EXPECT_TRUE(cluster_.WatchStatus(kWorker).in_step);
}

TEST_F(ClusterWatchTest, ARestartedWorkerIsReadyWithoutTheOldOnesBlocks) {
  worker_.Change({10});
  Subscribe(worker_);
  link_->Break();
  ReadyWorker reborn = MakeReadyWorker();
  reborn.info.epoch = 2;
  ASSERT_TRUE(link_->BecomeReady(reborn).ok());
  EXPECT_EQ(Shown().state, WorkerState::kReady);
  EXPECT_FALSE(Shown().holder.has_value());
  EXPECT_EQ(link_->BeginWatch(), WatchPosition());
  EXPECT_EQ(cluster_.WatchStatus(kWorker).resyncs[static_cast<size_t>(ResyncCause::kEpoch)], 1);
  cluster_.Tick();
  EXPECT_EQ(cluster_.index().Stats().distinct_blocks, 0) << "swept";
}

TEST_F(ClusterWatchTest, KeepsTheBlocksOfALostWorkerForAWhile) {
  worker_.Change({10});
  Subscribe(worker_);
  link_->Break();
  Wait(kKeepBlocks - milliseconds(1));
  ASSERT_TRUE(link_->BecomeReady().ok());
  EXPECT_TRUE(IsCredited(10)) << "the same worker: only the connection broke";
  EXPECT_EQ(link_->BeginWatch(), (WatchPosition{1, 2}));

  link_->Break();
  Wait(kKeepBlocks - milliseconds(1));
  link_->Break();  // another attempt failed: that changes nothing
  Wait(milliseconds(1));
  EXPECT_FALSE(Shown().holder.has_value());
  cluster_.Tick();
  EXPECT_EQ(cluster_.index().Stats().distinct_blocks, 0);
  ASSERT_TRUE(link_->BecomeReady().ok());
  EXPECT_EQ(link_->BeginWatch(), WatchPosition());
}

TEST_F(ClusterWatchTest, ASilentWorkerIsSuspectUntilItIsHeardAgain) {
  Subscribe(worker_);
  Wait(seconds(60));
  EXPECT_EQ(Shown().state, WorkerState::kReady) << "no load has come yet: no beat is missed";
  link_->Tell(worker_.Load());
  Wait(kSilence - milliseconds(1));
  EXPECT_EQ(Shown().state, WorkerState::kReady);
  Wait(milliseconds(1));
  EXPECT_EQ(Shown().state, WorkerState::kSuspect);
  EXPECT_TRUE(cluster_.TryDispatch(kWorker, 0, {}).has_value()) << "better than none";
  link_->Tell(worker_.Load());
  cluster_.Tick();
  EXPECT_EQ(Shown().state, WorkerState::kReady);
  EXPECT_EQ(changes_, 3);
}

TEST_F(ClusterWatchTest, BytesOfAnyStreamAreASignOfLife) {
  Subscribe(worker_);
  link_->Tell(worker_.Load());
  for (int i = 0; i < 10; ++i) {
    Wait(kSilence - milliseconds(1));
    link_->GiveSign();
  }
  EXPECT_EQ(Shown().state, WorkerState::kReady);
}

TEST_F(ClusterWatchTest, AWatchThatIsBegunAgainMissesNoBeats) {
  Subscribe(worker_);
  link_->Tell(worker_.Load());
  link_->EndWatch();
  Wait(seconds(60));
  EXPECT_EQ(Shown().state, WorkerState::kReady);
}

TEST_F(ClusterWatchTest, AWorkerWhoseStepDoesNotEndIsSuspect) {
  Subscribe(worker_);
  api::Load load;
  load.step_age = kLongestStep;
  link_->Tell(worker_.Load(load));
  cluster_.Tick();
  EXPECT_EQ(Shown().state, WorkerState::kSuspect);
  load.step_age = {};
  link_->Tell(worker_.Load(load));
  cluster_.Tick();
  EXPECT_EQ(Shown().state, WorkerState::kReady);
}

TEST_F(ClusterWatchTest, ASuspectWorkerThatIsLostIsDown) {
  Subscribe(worker_);
  link_->Tell(worker_.Load());
  Wait(kSilence);
  link_->Break();
  cluster_.Tick();
  EXPECT_EQ(Shown().state, WorkerState::kDown);
}

TEST_F(ClusterWatchTest, AWorkerThatSaysItDrainsGetsNothing) {
  Subscribe(worker_);
  api::Load load;
  load.draining = true;
  link_->Tell(worker_.Load(load));
  EXPECT_EQ(Shown().state, WorkerState::kDraining);
  Wait(kSilence);
  EXPECT_EQ(Shown().state, WorkerState::kDraining) << "nobody doubts that";
}

TEST_F(ClusterWatchTest, AWorkerOfAnEarlierReleaseServesWithoutCredit) {
  link_->BeginWatch();
  link_->EndWatch(absl::UnimplementedError("no such method"));
  Wait(seconds(60));
  EXPECT_EQ(Shown().state, WorkerState::kReady);
  EXPECT_FALSE(Shown().holder.has_value());
  EXPECT_TRUE(cluster_.TryDispatch(kWorker, 7, {}).has_value());
}

TEST_F(ClusterWatchTest, ShowsTheLoadThatTheWorkerTold) {
  Subscribe(worker_);
  api::Load load;
  load.load_version = 4;
  load.running = 2;
  load.total_blocks = 64;
  load.free_blocks = 30;
  load.cached_blocks = 20;
  load.prefill_tokens = 5;
  load.waiting_tokens = 6;
  load.step_model.token_us = 3;
  link_->Tell(worker_.Load(load));
  const auto dispatch = cluster_.TryDispatch(kWorker, 100, {});
  EXPECT_EQ(Load().running, 2);
  EXPECT_EQ(Load().waiting, 1);
  EXPECT_EQ(Load().queued_tokens, 111);
  EXPECT_EQ(Load().free_blocks, 30);
  EXPECT_EQ(Load().cached_blocks, 20);
  EXPECT_EQ(Load().step_model.token_us, 3);
  // A frame that does not fit is not believed in anything.
  worker_.Change({10});
  load.running = 50;
  EXPECT_EQ(link_->Tell(worker_.Load(load)), WatchVerdict::kResubscribe);
  EXPECT_EQ(Load().running, 2);
}

// Blocks 10 and 11 of a prompt, sent to be computed.
class ClusterCreditTest : public ClusterWatchTest {
 protected:
  ClusterCreditTest() {
    Subscribe(worker_);
    dispatch_ = cluster_.TryDispatch(kWorker, 32, prompt_);
    EXPECT_TRUE(dispatch_.has_value());
  }
  ~ClusterCreditTest() override { dispatch_.reset(); }

  api::WatchFrame LoadOf(uint64_t version) const {
    api::Load load;
    load.load_version = version;
    return worker_.Load(load);
  }
  // How much of the prompt is expected in the worker's cache.
  int32_t Expected() const {
    int32_t depth = 0;
    const std::optional<HolderId> holder = Shown().holder;
    if (holder.has_value()) cluster_.index().Match(prompt_, {*holder}, absl::MakeSpan(&depth, 1));
    return cluster_.pending().Extend(kWorker, prompt_, depth);
  }

  const std::vector<hash::BlockHash> prompt_ = {10, 11};
  std::optional<Dispatch> dispatch_;
};

TEST_F(ClusterCreditTest, LastsUntilTheIndexHasTheBlocks) {
  EXPECT_EQ(Expected(), 2);
  cluster_.End(*std::exchange(dispatch_, std::nullopt), 5);
  EXPECT_EQ(Load().in_flight, 0);
  link_->Tell(LoadOf(4));
  EXPECT_EQ(Expected(), 2) << "the worker has not told of its end";
  link_->Tell(LoadOf(5));
  EXPECT_EQ(Expected(), 2) << "loads overtake deltas";
  link_->Tell(worker_.Change({10, 11}));
  link_->Tell(LoadOf(5));
  EXPECT_EQ(Expected(), 2);
  EXPECT_EQ(cluster_.pending().entries(), 0);
}

TEST_F(ClusterCreditTest, EndsWithTheNextLoadWhereTheWorkerHasTold) {
  link_->Tell(LoadOf(7));
  cluster_.End(*std::exchange(dispatch_, std::nullopt), 6);
  EXPECT_EQ(Expected(), 2);
  link_->Tell(LoadOf(7));
  EXPECT_EQ(cluster_.pending().entries(), 0);
}

TEST_F(ClusterCreditTest, EndsAtOnceForACallThatTheWorkerNeverCounted) {
  cluster_.End(*std::exchange(dispatch_, std::nullopt), 0);
  EXPECT_EQ(cluster_.pending().entries(), 0);
}

TEST_F(ClusterCreditTest, LastsWhileTheIndexIsBeingRepaired) {
  cluster_.End(*std::exchange(dispatch_, std::nullopt), 5);
  worker_.Change({10, 11});  // lost
  EXPECT_EQ(link_->Tell(LoadOf(5)), WatchVerdict::kResubscribe);
  EXPECT_EQ(Expected(), 2);
  Subscribe(worker_);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(link_->Tell(LoadOf(5)), WatchVerdict::kContinue);
  EXPECT_EQ(Expected(), 2);
  EXPECT_EQ(cluster_.pending().entries(), 0);
}

TEST_F(ClusterCreditTest, GoesWithTheWatch) {
  cluster_.End(*std::exchange(dispatch_, std::nullopt), 5);
  link_->EndWatch();
  EXPECT_EQ(cluster_.pending().entries(), 0);
}

TEST_F(ClusterCreditTest, GoesWithTheWorker) {
  cluster_.End(*std::exchange(dispatch_, std::nullopt), 5);
  link_->Break();
  EXPECT_EQ(cluster_.pending().entries(), 0);
}

}  // namespace
}  // namespace qanat::router
