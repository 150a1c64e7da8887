#include "router/cluster/watch_replica.h"

#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fakes/watched_worker.h"

namespace qanat::router {
namespace {

using fakes::WatchedWorker;

constexpr int64_t kCapacity = 64;

class WatchReplicaTest : public testing::Test {
 protected:
  WatchReplicaTest() { replica_.Meet(1, kCapacity); }

  // Begins a watch and applies what the worker answers.
  void Subscribe(const WatchedWorker& worker) {
    for (const api::WatchFrame& frame : worker.Answer(replica_.Begin())) {
      ASSERT_EQ(replica_.Apply(frame), WatchVerdict::kContinue);
    }
    replica_.CloseRetired();
  }
  bool Holds(hash::BlockHash block) const {
    if (!replica_.holder().has_value()) return false;
    int32_t depth = 0;
    index_.Match({block}, {*replica_.holder()}, absl::MakeSpan(&depth, 1));
    return depth == 1;
  }
  // How often each cause was counted, without those that never were.
  std::map<ResyncCause, int> Causes() const {
    std::map<ResyncCause, int> causes;
    for (const ResyncCause cause : kResyncCauses) {
      if (replica_.resyncs(cause) > 0) causes[cause] = static_cast<int>(replica_.resyncs(cause));
    }
    return causes;
  }
  using Counted = std::map<ResyncCause, int>;

  Index index_;
  WatchReplica replica_{index_};
  WatchedWorker worker_{1};
};

TEST_F(WatchReplicaTest, HoldsWhatTheSnapshotAndTheDeltasSay) {
  worker_.Change({10, 11, 12});
  Subscribe(worker_);
  EXPECT_TRUE(replica_.in_step());
  EXPECT_EQ(replica_.blocks(), 3);
  EXPECT_EQ(replica_.Apply(worker_.Change({13}, {12})), WatchVerdict::kContinue);
  EXPECT_EQ(replica_.Apply(worker_.Load()), WatchVerdict::kContinue);
  EXPECT_TRUE(Holds(13));
  EXPECT_FALSE(Holds(12));
  EXPECT_TRUE(replica_.in_step());
  EXPECT_EQ(Causes(), Counted());
}

TEST_F(WatchReplicaTest, ShowsNothingOfASnapshotBeforeItsEnd) {
  worker_.Change({10, 11});
  std::vector<api::WatchFrame> frames = worker_.Answer(replica_.Begin());
  for (size_t i = 0; i + 1 < frames.size(); ++i) replica_.Apply(frames[i]);
  EXPECT_FALSE(replica_.holder().has_value());
  EXPECT_FALSE(replica_.in_step());
  EXPECT_EQ(replica_.Apply(worker_.Load()), WatchVerdict::kContinue) << "loads may come in between";
  replica_.Apply(frames.back());
  EXPECT_TRUE(Holds(10));
}

TEST_F(WatchReplicaTest, GoesOnFromWhereItWasAfterALostFrame) {
  Subscribe(worker_);
  replica_.Apply(worker_.Change({10}));
  worker_.Change({11});  // lost
  EXPECT_EQ(replica_.Apply(worker_.Change({12})), WatchVerdict::kResubscribe);
  EXPECT_FALSE(replica_.in_step());
  EXPECT_TRUE(Holds(10)) << "what is known stays";
  EXPECT_EQ(replica_.Begin(), (WatchPosition{1, 2}));
  Subscribe(worker_);
  EXPECT_TRUE(Holds(11) && Holds(12) && replica_.in_step());
  EXPECT_EQ(Causes(), (Counted{{ResyncCause::kSequence, 1}}));
}

TEST_F(WatchReplicaTest, ALoadShowsThatTheLastDeltaIsMissing) {
  Subscribe(worker_);
  worker_.Change({11});  // lost
  EXPECT_EQ(replica_.Apply(worker_.Load()), WatchVerdict::kResubscribe);
  EXPECT_EQ(Causes(), (Counted{{ResyncCause::kSequence, 1}}));
}

TEST_F(WatchReplicaTest, AFrameThatComesTwiceIsNotAppliedTwice) {
  Subscribe(worker_);
  const api::WatchFrame delta = worker_.Change({10});
  EXPECT_EQ(replica_.Apply(delta), WatchVerdict::kContinue);
  EXPECT_EQ(replica_.Apply(delta), WatchVerdict::kResubscribe);
  Subscribe(worker_);
  EXPECT_EQ(replica_.blocks(), 1);
  EXPECT_EQ(Causes(), (Counted{{ResyncCause::kSequence, 1}}));
}

TEST_F(WatchReplicaTest, AWrongDigestAsksForASnapshot) {
  Subscribe(worker_);
  api::WatchFrame delta = worker_.Change({10, 11});
  std::get<api::Delta>(delta.body).stored.pop_back();
  EXPECT_EQ(replica_.Apply(delta), WatchVerdict::kResubscribe);
  EXPECT_EQ(replica_.Begin(), WatchPosition()) << "no state of the worker";
  Subscribe(worker_);
  EXPECT_TRUE(Holds(11) && replica_.in_step());
  EXPECT_EQ(Causes(), (Counted{{ResyncCause::kDigest, 1}}));
}

TEST_F(WatchReplicaTest, ASnapshotThatDoesNotAddUpDoesNotReplaceTheState) {
  worker_.Change({10});
  Subscribe(worker_);
  std::vector<api::WatchFrame> frames = WatchedWorker(worker_).Answer({});
  frames.erase(frames.begin() + 1);
  EXPECT_EQ(replica_.Apply(frames[0]), WatchVerdict::kContinue);
  EXPECT_EQ(replica_.Apply(frames[1]), WatchVerdict::kResubscribe);
  EXPECT_TRUE(Holds(10));
  EXPECT_EQ(Causes(), (Counted{{ResyncCause::kRing, 1}, {ResyncCause::kDigest, 1}}));
}

TEST_F(WatchReplicaTest, ASnapshotInsteadOfAResumeIsCounted) {
  Subscribe(worker_);
  for (hash::BlockHash block = 10; block < 30; ++block) worker_.Change({block});
  replica_.End();
  Subscribe(worker_);
  EXPECT_EQ(replica_.blocks(), 20);
  EXPECT_EQ(Causes(), (Counted{{ResyncCause::kReconnect, 1}, {ResyncCause::kRing, 1}}));
}

TEST_F(WatchReplicaTest, ABrokenWatchGoesOnWhereItWas) {
  worker_.Change({10});
  Subscribe(worker_);
  replica_.End();
  EXPECT_FALSE(replica_.in_step());
  EXPECT_TRUE(Holds(10));
  worker_.Change({11});
  Subscribe(worker_);
  EXPECT_TRUE(Holds(11) && replica_.in_step());
  EXPECT_EQ(Causes(), (Counted{{ResyncCause::kReconnect, 1}}));
}

TEST_F(WatchReplicaTest, AnotherEpochDropsEverythingAtOnce) {
  worker_.Change({10});
  Subscribe(worker_);
  replica_.End();
  replica_.Meet(2, kCapacity);
  EXPECT_FALSE(replica_.holder().has_value());
  EXPECT_EQ(replica_.Begin(), WatchPosition());
  EXPECT_EQ(Causes(), (Counted{{ResyncCause::kEpoch, 1}}));
}

TEST_F(WatchReplicaTest, AFrameOfAnotherEpochDropsEverythingAtOnce) {
  worker_.Change({10});
  Subscribe(worker_);
  WatchedWorker other(2);
  EXPECT_EQ(replica_.Apply(other.Load()), WatchVerdict::kReconnect);
  EXPECT_FALSE(replica_.holder().has_value());
  EXPECT_EQ(Causes(), (Counted{{ResyncCause::kEpoch, 1}}));
}

TEST_F(WatchReplicaTest, AWorkerThatClaimsMoreThanItHasRoomForIsNotBelieved) {
  std::vector<hash::BlockHash> blocks;
  for (hash::BlockHash block = 1; block <= kCapacity + 1; ++block) blocks.push_back(block);
  worker_.Change(blocks);
  WatchVerdict last = WatchVerdict::kContinue;
  for (const api::WatchFrame& frame : worker_.Answer(replica_.Begin())) last = replica_.Apply(frame);
  EXPECT_EQ(last, WatchVerdict::kResubscribe);
  EXPECT_FALSE(replica_.holder().has_value());
  EXPECT_LE(index_.Stats().distinct_blocks, kCapacity);
}

TEST_F(WatchReplicaTest, WhatWasReplacedIsCreditedUntilItIsRetired) {
  worker_.Change({10});
  Subscribe(worker_);
  const HolderId old = *replica_.holder();
  for (const api::WatchFrame& frame : worker_.Answer({})) replica_.Apply(frame);
  EXPECT_NE(*replica_.holder(), old);
  EXPECT_EQ(index_.Residency(old).resident_count, 1);
  replica_.CloseRetired();
  int32_t depth = 1;
  const hash::BlockHash block = 10;
  index_.Match({block}, {old}, absl::MakeSpan(&depth, 1));
  EXPECT_EQ(depth, 0);
}

// A worker's frames on their way to a replica: some are lost, come twice or change places.
class FaultyWire {
 public:
  enum class Fault { kNone, kDrop, kRepeat, kSwap };

  FaultyWire(WatchReplica& replica, WatchedWorker& worker) : replica_(replica), worker_(worker) {}

  // Carries `frame`; the verdict's consequences follow at once. Faults do not befall what a new watch begins
  // with.
  void Carry(const api::WatchFrame& frame, Fault fault) {
    if (fault == Fault::kDrop) return;
    if (fault == Fault::kSwap && !held_.has_value()) {
      held_ = frame;
      return;
    }
    Hand(frame);
    if (fault == Fault::kRepeat) Hand(frame);
    if (held_.has_value()) Hand(*std::exchange(held_, std::nullopt));
  }
  void Break() {
    held_.reset();
    replica_.End();
    Subscribe();
  }
  void Subscribe() {
    held_.reset();
    for (const api::WatchFrame& frame : worker_.Answer(replica_.Begin())) {
      ASSERT_EQ(replica_.Apply(frame), WatchVerdict::kContinue);
    }
    replica_.CloseRetired();
  }

 private:
  void Hand(const api::WatchFrame& frame) {
    if (replica_.Apply(frame) == WatchVerdict::kResubscribe) Subscribe();
  }

  WatchReplica& replica_;
  WatchedWorker& worker_;
  std::optional<api::WatchFrame> held_;
};

TEST_F(WatchReplicaTest, EqualsTheWorkerAtQuietWhateverBefellTheFrames) {
  constexpr int kUniverse = 60;
  std::mt19937 random(17);
  FaultyWire wire(replica_, worker_);
  wire.Subscribe();
  for (int step = 0; step < 20000; ++step) {
    const unsigned dice = random() % 40;
    const auto fault = dice < 3 ? FaultyWire::Fault{static_cast<int>(dice) + 1} : FaultyWire::Fault::kNone;
    wire.Carry(random() % 5 == 0 ? worker_.Load() : worker_.ChangeAtRandom(random, kUniverse), fault);
    if (random() % 400 == 0) wire.Break();
    if (step % 50 != 49) continue;
    // Quiet: the next beats come as they are. Two of them, since one may have been held back.
    for (int beat = 0; beat < 2; ++beat) wire.Carry(worker_.Load(), FaultyWire::Fault::kNone);
    ASSERT_TRUE(replica_.in_step());
    ASSERT_EQ(index_.Residency(*replica_.holder()), worker_.residency());
    for (hash::BlockHash block = 1; block <= kUniverse; ++block) {
      ASSERT_EQ(Holds(block), worker_.blocks().count(block) > 0) << "block " << block << ", step " << step;
    }
  }
  index_.CheckInvariants();
  EXPECT_GT(replica_.resyncs(ResyncCause::kSequence), 500);
  EXPECT_GT(replica_.resyncs(ResyncCause::kReconnect), 20);
  EXPECT_EQ(replica_.resyncs(ResyncCause::kDigest), 0) << "the numbers alone find all of these";
}

}  // namespace
}  // namespace qanat::router
