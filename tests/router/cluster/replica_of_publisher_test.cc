// A worker's publisher and a router's replica, joined without a wire: at every quiet moment the replica is
// what the worker holds. Where failpoints are compiled in, frames are lost, come twice and change places.
#include <memory>
#include <random>
#include <set>

#include "common/base/failpoint.h"
#include "gtest/gtest.h"
#include "router/cluster/watch_replica.h"
#include "tests/fakes/fake_clock.h"
#include "worker/service/watch/state_publisher.h"

namespace qanat::router {
namespace {

constexpr int kUniverse = 200;
constexpr uint64_t kEpoch = 9;

class NobodyListens final : public service::WatchListener {
 public:
  void OnFrames() override {}
};

class ReplicaOfPublisherTest : public testing::Test {
 protected:
  ReplicaOfPublisherTest()
      : publisher_(kEpoch, {.log = {.frame_hashes = 8, .log_hashes = 400}}, clock_,
                   [] { return api::Load{}; }) {
    replica_.Meet(kEpoch, kUniverse);
    Subscribe();
  }

  void Play(int steps) {
    for (int step = 0; step < steps; ++step) {
      Change();
      clock_.Advance(std::chrono::milliseconds(random_() % 20));
      publisher_.Publish();
      if (random_() % 100 == 0) BreakWatch();
      // A router that sleeps for long falls behind what the worker remembers.
      if (random_() % 100 == 0) asleep_ = 60;
      if (asleep_ > 0) {
        --asleep_;
        continue;
      }
      Read();
      if (random_() % 30 == 0) BeQuiet();
    }
    asleep_ = 0;
    BeQuiet();
    index_.CheckInvariants();
  }
  int64_t Resyncs(ResyncCause cause) const { return replica_.resyncs(cause); }

 private:
  void Subscribe() {
    const WatchPosition from = replica_.Begin();
    subscription_ = publisher_.Subscribe(from.epoch, from.seq, listener_);
  }
  void BreakWatch() {
    replica_.End();
    Subscribe();
  }
  void Change() {
    hash::SetDelta delta;
    for (int i = static_cast<int>(random_() % 12); i > 0; --i) {
      const hash::BlockHash block = 1 + random_() % kUniverse;
      if (!touched_.insert(block).second) continue;
      if (blocks_.erase(block) > 0) {
        delta.removed.push_back(block);
      } else {
        blocks_.insert(block);
        delta.stored.push_back(block);
      }
    }
    touched_.clear();
    publisher_.OnResidencyChange(delta);
  }
  // All that there is, over as many watches as it takes.
  void Read() {
    while (const auto frame = subscription_->Next()) {
      if (replica_.Apply(*frame) != WatchVerdict::kContinue) Subscribe();
      replica_.CloseRetired();
    }
  }
  // Nothing changes any more; beats find what is missing.
  void BeQuiet() {
    for (int beat = 0; beat < 50 && !IsEqual(); ++beat) {
      clock_.Advance(std::chrono::milliseconds(100));
      publisher_.Publish();
      Read();
    }
    ASSERT_TRUE(IsEqual());
  }
  bool IsEqual() const {
    hash::Residency residency;
    for (const hash::BlockHash block : blocks_) residency.Add(block);
    return replica_.in_step() && index_.Residency(*replica_.holder()) == residency;
  }

  std::mt19937 random_{29};
  fakes::FakeClock clock_;
  service::StatePublisher publisher_;
  const std::shared_ptr<NobodyListens> listener_ =
      std::make_shared<NobodyListens>();  // subscriptions share it
  std::unique_ptr<service::WatchSubscription> subscription_;
  std::set<hash::BlockHash> blocks_;  // the worker's
  std::set<hash::BlockHash> touched_;
  Index index_;
  WatchReplica replica_{index_};
  int asleep_ = 0;
};

TEST_F(ReplicaOfPublisherTest, EqualsTheWorkerWhereNothingIsLost) {
  Play(3000);
  EXPECT_EQ(Resyncs(ResyncCause::kSequence), 0);
  EXPECT_EQ(Resyncs(ResyncCause::kDigest), 0);
  EXPECT_GT(Resyncs(ResyncCause::kReconnect), 10);
  EXPECT_GT(Resyncs(ResyncCause::kRing), 10) << "of a router that slept";
}

#if defined(QANAT_FAILPOINTS)
class FaultyPublisherTest : public ReplicaOfPublisherTest, public testing::WithParamInterface<const char*> {};

TEST_P(FaultyPublisherTest, TheReplicaFindsOutAndEqualsTheWorkerAtQuiet) {
  const ScopedFailpoint fault(GetParam(), {.probability = 0.05, .seed = 4});
  Play(1500);
  EXPECT_GT(fault.fired(), 50);
  EXPECT_GT(Resyncs(ResyncCause::kSequence) + Resyncs(ResyncCause::kDigest), 10);
}
INSTANTIATE_TEST_SUITE_P(Faults, FaultyPublisherTest,
                         testing::Values("watch.drop_frame", "watch.repeat_frame", "watch.swap_frames"));
#endif

}  // namespace
}  // namespace qanat::router
