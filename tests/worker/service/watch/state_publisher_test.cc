#include "worker/service/watch/state_publisher.h"

#include <chrono>
#include <memory>
#include <numeric>
#include <set>

#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/watching_router.h"

namespace qanat::service {
namespace {

using std::chrono::milliseconds;

class CountingListener final : public WatchListener {
 public:
  void OnFrames() override { ++calls; }
  int calls = 0;
};

class StatePublisherTest : public testing::Test {
 protected:
  StatePublisherTest()
      : publisher_(5, {}, clock_, [this] {
          ++loads_read_;
          api::Load load;
          load.load_version = load_version_;
          return load;
        }) {}

  // One subscriber, its stream and what it made of it.
  struct Subscriber {
    std::shared_ptr<CountingListener> listener = std::make_shared<CountingListener>();
    std::unique_ptr<WatchSubscription> subscription;
    fakes::WatchingRouter router;

    void ReadAll() {
      while (const auto frame = subscription->Next()) ASSERT_EQ(router.Take(*frame), "");
    }
  };
  Subscriber Subscribe() {
    Subscriber subscriber;
    subscriber.subscription = publisher_.Subscribe(0, 0, subscriber.listener);
    return subscriber;
  }
  void Store(hash::BlockHash first, int count) {
    hash::SetDelta delta;
    delta.stored.resize(count);
    std::iota(delta.stored.begin(), delta.stored.end(), first);
    publisher_.OnResidencyChange(delta);
  }
  void ChangeLoad() {
    ++load_version_;
    publisher_.OnLoadChange();
  }
  void PublishAfter(Duration time) {
    clock_.Advance(time);
    publisher_.Publish();
  }

  fakes::FakeClock clock_;
  uint64_t load_version_ = 0;
  int loads_read_ = 0;
  StatePublisher publisher_;
};

TEST_F(StatePublisherTest, ASubscriberGetsASnapshotAndThenALoad) {
  Store(1, 600);
  publisher_.Publish();
  Subscriber subscriber = Subscribe();
  EXPECT_EQ(publisher_.num_subscribers(), 1);
  subscriber.ReadAll();
  EXPECT_EQ(subscriber.router.snapshots(), 1);
  EXPECT_EQ(subscriber.router.resident().size(), 600u);
  EXPECT_EQ(subscriber.router.loads(), 0);
  publisher_.Publish();
  EXPECT_EQ(subscriber.listener->calls, 1);
  subscriber.ReadAll();
  EXPECT_EQ(subscriber.router.loads(), 1);
  EXPECT_EQ(publisher_.num_snapshots(), 1);
  subscriber.subscription.reset();
  EXPECT_EQ(publisher_.num_subscribers(), 0);
}

TEST_F(StatePublisherTest, ChangesOfATickAreOneDelta) {
  Subscriber subscriber = Subscribe();
  Store(1, 2);
  publisher_.Publish();
  subscriber.ReadAll();
  EXPECT_EQ(subscriber.router.resident().size(), 2u);
  const uint64_t before = subscriber.router.seq();
  Store(3, 2);
  PublishAfter(milliseconds(4));
  Store(5, 2);
  PublishAfter(Duration(999'999));
  subscriber.ReadAll();
  EXPECT_EQ(subscriber.router.seq(), before) << "the tick is not over";
  PublishAfter(Duration(1));
  subscriber.ReadAll();
  EXPECT_EQ(subscriber.router.seq(), before + 1);
  EXPECT_EQ(subscriber.router.resident().size(), 6u);
}

TEST_F(StatePublisherTest, ManyChangesDoNotWaitForTheTick) {
  Subscriber subscriber = Subscribe();
  Store(1, 1);
  publisher_.Publish();
  Store(2, 511);
  publisher_.Publish();
  subscriber.ReadAll();
  EXPECT_EQ(subscriber.router.resident().size(), 1u);
  Store(1000, 1);
  publisher_.Publish();
  subscriber.ReadAll();
  EXPECT_EQ(subscriber.router.resident().size(), 513u);
}

TEST_F(StatePublisherTest, WithoutSubscribersFewChangesWaitAndNoLoadIsRead) {
  Store(1, 511);
  ChangeLoad();
  PublishAfter(std::chrono::hours(1));
  EXPECT_EQ(loads_read_, 0);
  // A subscriber finds them in its first delta.
  Subscriber subscriber = Subscribe();
  subscriber.ReadAll();
  EXPECT_TRUE(subscriber.router.resident().empty());
  publisher_.Publish();
  subscriber.ReadAll();
  EXPECT_EQ(subscriber.router.resident().size(), 511u);
  EXPECT_EQ(subscriber.router.deltas(), 1);
}

TEST_F(StatePublisherTest, LoadsComeWithEachBeatAndAfterAChangeWithTheTick) {
  Subscriber subscriber = Subscribe();
  const auto loads = [&] {
    subscriber.ReadAll();
    return subscriber.router.loads();
  };
  publisher_.Publish();
  EXPECT_EQ(loads(), 1);
  PublishAfter(milliseconds(99));
  EXPECT_EQ(loads(), 1);
  PublishAfter(milliseconds(1));
  EXPECT_EQ(loads(), 2);
  ChangeLoad();
  PublishAfter(milliseconds(4));
  EXPECT_EQ(loads(), 2);
  ChangeLoad();
  PublishAfter(milliseconds(1));
  EXPECT_EQ(loads(), 3) << "one for both changes";
  EXPECT_EQ(subscriber.router.load()->load_version, 2u);
  PublishAfter(milliseconds(99));
  EXPECT_EQ(loads(), 3);
}

TEST_F(StatePublisherTest, OneThatReadsNothingCostsTheOthersNothingAndCatchesUp) {
  Subscriber slow = Subscribe();
  Subscriber quick = Subscribe();
  quick.ReadAll();
  for (hash::BlockHash hash = 1; hash < 400; hash += 2) {
    Store(hash, 2);
    ChangeLoad();
    PublishAfter(milliseconds(5));
    quick.ReadAll();
  }
  EXPECT_EQ(quick.router.resident().size(), 400u);
  EXPECT_EQ(quick.router.deltas(), 200);
  EXPECT_EQ(quick.router.loads(), 200);
  slow.ReadAll();
  EXPECT_EQ(slow.router.resident(), quick.router.resident());
  EXPECT_EQ(slow.router.loads(), 1) << "old loads are nobody's";
}

TEST_F(StatePublisherTest, AListenerThatIsGoneIsNotCalled) {
  Subscriber subscriber = Subscribe();
  subscriber.listener.reset();
  Store(1, 1);
  publisher_.Publish();
  subscriber.ReadAll();
  EXPECT_EQ(subscriber.router.resident().size(), 1u);
}

}  // namespace
}  // namespace qanat::service
