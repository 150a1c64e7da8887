// Random play of a cache, its publisher and routers that read at their own pace, leave and come back: at
// every quiet moment each router knows exactly what the cache holds. Where failpoints are compiled in, frames
// get lost, doubled and swapped, and routers notice.
#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/base/failpoint.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/watching_router.h"
#include "worker/kv/kv_manager.h"
#include "worker/service/watch/state_publisher.h"

namespace qanat::service {
namespace {

constexpr int32_t kBlockSize = 2;

class NobodyListens final : public WatchListener {
 public:
  void OnFrames() override {}
};

struct Tally {
  int resumed = 0;
  int snapshots = 0;
  int fell_behind = 0;
  int faults = 0;
};

class Play {
 public:
  explicit Play(uint32_t seed)
      : random_(seed), publisher_(Below(3) + 1, MakeOptions(), clock_, [] { return api::Load{}; }) {}

  void InjectFaults() {
    faults_allowed_ = true;
    Arm();
  }
  void Run(Tally& tally) {
    for (int step = 0; step < 400; ++step) {
      Compute();
      for (Router& router : routers_) Act(router, tally);
      if (Below(3) == 0) clock_.Advance(std::chrono::milliseconds(Below(8)));
      publisher_.Publish();
      if (Below(40) == 0) BeQuiet(tally);
      if (testing::Test::HasFatalFailure()) return;
    }
    BeQuiet(tally);
    publisher_.CheckInvariants();
    for (const Router& router : routers_) tally.snapshots += router.state.snapshots();
  }

 private:
  struct Router {
    fakes::WatchingRouter state;
    std::unique_ptr<WatchSubscription> subscription;
  };

  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  StatePublisher::Options MakeOptions() {
    StatePublisher::Options options;
    options.delta_hashes = static_cast<size_t>(1 + Below(20));
    options.log.frame_hashes = static_cast<size_t>(1 + Below(8));
    options.log.log_hashes = static_cast<size_t>(20 + Below(300));
    return options;
  }

  // One history of random tokens is computed, published and given up; others are evicted for it.
  void Compute() {
    std::vector<TokenId> tokens(1 + Below(14));
    for (TokenId& token : tokens) token = Below(2);
    kv::BlockTable table = kv_.NewTable(hash::Namespace{});
    kv_.Attach(table, kv_.Match(table, tokens));
    ASSERT_TRUE(kv_.Reserve(table, static_cast<int32_t>(tokens.size())));
    kv_.Commit(table, tokens);
    const hash::SetDelta delta = kv_.TakeDelta();
    for (const hash::BlockHash hash : delta.stored) resident_.insert(hash);
    for (const hash::BlockHash hash : delta.removed) resident_.erase(hash);
    ASSERT_EQ(static_cast<int32_t>(resident_.size()), kv_.num_resident());
    if (!delta.empty()) publisher_.OnResidencyChange(delta);
  }

  void Act(Router& router, Tally& tally) {
    if (router.subscription == nullptr) {
      if (Below(10) == 0) Subscribe(router);
      return;
    }
    if (Below(40) == 0) {
      router.subscription.reset();
      router.state.Disconnect();
      return;
    }
    for (int frames = Below(4); frames > 0; --frames) Read(router, tally);
  }
  void Subscribe(Router& router) {
    router.subscription = publisher_.Subscribe(router.state.epoch(), router.state.seq(), listener_);
    fresh_ = &router;
  }
  // False when there was nothing to read. Whoever notices a fault subscribes again.
  bool Read(Router& router, Tally& tally) {
    const std::optional<api::WatchFrame> frame = router.subscription->Next();
    if (!frame.has_value()) return false;
    const bool first = fresh_ == &router;
    if (first) fresh_ = nullptr;
    const bool begins = std::holds_alternative<api::SnapshotBegin>(frame->body);
    if (first && !begins && router.state.seq() > 0) ++tally.resumed;
    if (!first && begins) ++tally.fell_behind;
    const std::string wrong = router.state.Take(*frame);
    if (wrong.empty()) return true;
    ++tally.faults;
    if (!faults_allowed_) ADD_FAILURE() << wrong;
    router.subscription.reset();
    router.state.Disconnect();
    Subscribe(router);
    return true;
  }
  // Nothing is injected any more, everything is told: then all know the cache. A frame that got lost shows
  // with the next one, at the latest the next load.
  void BeQuiet(Tally& tally) {
    Disarm();
    for (Router& router : routers_) {
      if (router.subscription == nullptr) Subscribe(router);
    }
    for (int beat = 0; beat < 2; ++beat) {
      clock_.Advance(std::chrono::milliseconds(100));
      publisher_.Publish();
      for (Router& router : routers_) {
        while (Read(router, tally)) {
        }
      }
    }
    for (const Router& router : routers_) {
      ASSERT_EQ(router.state.resident(), resident_);
      ASSERT_GT(router.state.loads(), 0);
    }
    if (faults_allowed_) Arm();
  }

#if defined(QANAT_FAILPOINTS)
  void Arm() {
    for (const char* name : {"watch.drop_frame", "watch.repeat_frame", "watch.swap_frames"}) {
      Failpoints::Plan plan;
      plan.probability = 0.05;
      plan.seed = random_();
      faults_.push_back(std::make_unique<ScopedFailpoint>(name, plan));
    }
  }
  void Disarm() { faults_.clear(); }
  std::vector<std::unique_ptr<ScopedFailpoint>> faults_;
#else
  void Arm() {}
  void Disarm() {}
#endif

  std::mt19937 random_;
  fakes::FakeClock clock_;
  hash::BlockHasher hasher_{hash::kPublicKey, "model", kBlockSize};
  kv::KvManager kv_{24, true, hasher_};
  std::set<hash::BlockHash> resident_;  // the naive twin
  std::shared_ptr<NobodyListens> listener_ = std::make_shared<NobodyListens>();
  StatePublisher publisher_;
  std::vector<Router> routers_{4};
  const Router* fresh_ = nullptr;  // subscribed, has read nothing
  bool faults_allowed_ = false;
};

TEST(StatePublisherRandomTest, RoutersKnowWhatTheCacheHolds) {
  Tally tally;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Play play(seed);
    play.Run(tally);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(tally.resumed, 100);
  EXPECT_GT(tally.fell_behind, 100);
  EXPECT_GT(tally.snapshots, 500);
  EXPECT_EQ(tally.faults, 0);
}

#if defined(QANAT_FAILPOINTS)  // else there is nothing to inject
TEST(StatePublisherRandomTest, RoutersNoticeLostDoubledAndSwappedFrames) {
  Tally tally;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Play play(seed);
    play.InjectFaults();
    play.Run(tally);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(tally.faults, 200);
}
#endif

}  // namespace
}  // namespace qanat::service
