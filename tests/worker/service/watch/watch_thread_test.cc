// An engine at work, its publisher's thread and routers on threads of their own, on the real clock. TSan is
// the judge of most of it.
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_model_runner.h"
#include "tests/fakes/recording_sink.h"
#include "tests/fakes/watching_router.h"
#include "worker/engine/engine.h"
#include "worker/service/watch/state_publisher.h"

namespace qanat::service {
namespace {

constexpr uint64_t kEpoch = 9;

// Reads whatever there is when it is told to, until it has seen a load of some version.
class RouterThread final : public WatchListener {
 public:
  void OnFrames() override EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      news_ = true;
    }
    changed_.NotifyOne();
  }

  // Leaves and comes back `times` times on its way.
  void ReadUntil(StatePublisher& publisher, std::weak_ptr<WatchListener> self, uint64_t load_version,
                 int times) EXCLUDES(mu_) {
    for (int frames_left = 50; router_.load() == std::nullopt || router_.load()->load_version < load_version;
         frames_left = 50) {
      auto subscription = publisher.Subscribe(router_.epoch(), router_.seq(), self);
      router_.Disconnect();
      if (times-- <= 0) frames_left = INT32_MAX;
      while (frames_left > 0 &&
             (router_.load() == std::nullopt || router_.load()->load_version < load_version)) {
        while (const auto frame = subscription->Next()) {
          ASSERT_EQ(router_.Take(*frame), "");
          --frames_left;
        }
        MutexLock lock(mu_);
        while (!news_) changed_.Wait(mu_);
        news_ = false;
      }
    }
  }
  const fakes::WatchingRouter& router() const { return router_; }

 private:
  fakes::WatchingRouter router_;
  Mutex mu_;
  CondVar changed_;
  bool news_ GUARDED_BY(mu_) = true;
};

engine::EngineOptions Options() {
  engine::EngineOptions options;
  options.context_length = 200;
  options.block_size = 4;
  options.num_blocks = 60;
  options.max_seqs = 8;
  return options;
}

TEST(WatchThreadTest, RoutersFollowAnEngineAtWork) {
  RealClock clock;
  fakes::FakeModelRunner runner(60, 4);
  engine::EngineMetrics metrics;
  const engine::Engine* engine_to_read = nullptr;
  StatePublisher publisher(kEpoch, {}, clock, [&] {
    api::Load load;
    load.load_version = engine_to_read->Snapshot().load_version;
    load.cached_blocks = engine_to_read->Snapshot().cached_blocks;
    return load;
  });
  engine::Engine engine(Options(), hash::BlockHasher(hash::kPublicKey, "model", 4), runner, clock, metrics,
                        &publisher);
  engine_to_read = &engine;
  constexpr int kRequests = 150;
  std::vector<std::shared_ptr<RouterThread>> routers;
  std::vector<std::thread> threads;
  {
    WatchThread watch(publisher);
    threads.emplace_back([&] {
      while (engine.WaitForWork()) engine.Step();
    });
    for (int i = 0; i < 3; ++i) {
      routers.push_back(std::make_shared<RouterThread>());
      threads.emplace_back([&publisher, router = routers.back(), i] {
        router->ReadUntil(publisher, router, 2 * kRequests, 3 * i);
      });
    }
    for (int i = 0; i < kRequests; ++i) {
      engine::Request request;
      for (int n = 0; n < 30 + i % 50; ++n) request.prompt.push_back(n < 20 ? n : i * 100 + n);
      request.max_tokens = 1 + i % 9;
      auto sink = std::make_shared<fakes::RecordingSink>();
      request.sink = sink;
      ASSERT_TRUE(engine.Submit(request).ok());
      if (i % 5 == 4) sink->WaitForEnd();
    }
    for (size_t i = 1; i < threads.size(); ++i) threads[i].join();
    engine.Shutdown();
    threads[0].join();
  }
  // Whoever has the last load has all deltas before it, or they are the next frames.
  std::vector<fakes::WatchingRouter> states;
  for (const auto& router : routers) {
    auto subscription = publisher.Subscribe(router->router().epoch(), router->router().seq(), router);
    fakes::WatchingRouter state = router->router();
    publisher.Publish();
    while (const auto frame = subscription->Next()) ASSERT_EQ(state.Take(*frame), "");
    EXPECT_EQ(static_cast<int32_t>(state.resident().size()), engine.Snapshot().cached_blocks);
    states.push_back(std::move(state));
    EXPECT_EQ(states.back().resident(), states.front().resident());
  }
  EXPECT_EQ(publisher.num_subscribers(), 0);
  publisher.CheckInvariants();
}

}  // namespace
}  // namespace qanat::service
