#include "worker/service/engine_loop.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_model_runner.h"
#include "tests/fakes/recording_sink.h"

namespace qanat::service {
namespace {

// A switch that threads wait for.
class Gate {
 public:
  void Open() EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      open_ = true;
    }
    changed_.NotifyAll();
  }
  void Wait() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!open_) changed_.Wait(mu_);
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool open_ GUARDED_BY(mu_) = false;
};

// The watchdog's: tells when it was looked at.
class CountedClock final : public Clock {
 public:
  explicit CountedClock(const Clock& clock) : clock_(clock) {}
  Time Now() const override {
    const Time now = clock_.Now();
    {
      MutexLock lock(mu_);
      ++looks_;
    }
    changed_.NotifyAll();
    return now;
  }
  // So many more.
  void WaitForLooks(int count) const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const int until = looks_ + count;
    while (looks_ < until) changed_.Wait(mu_);
  }

 private:
  const Clock& clock_;
  mutable Mutex mu_;
  mutable CondVar changed_;
  mutable int looks_ GUARDED_BY(mu_) = 0;
};

class EngineLoopTest : public ::testing::Test {
 protected:
  EngineLoopTest()
      : runner_(8, 16),
        engine_(Options(), hash::BlockHasher(hash::kPublicKey, "f", 16), runner_, clock_, metrics_),
        loop_(engine_, clock_) {}

  static engine::EngineOptions Options() {
    engine::EngineOptions options;
    options.context_length = 64;
    options.num_blocks = 8;
    return options;
  }

  std::shared_ptr<fakes::RecordingSink> Submit(size_t prompt = 3, int32_t max_tokens = 2) {
    auto sink = std::make_shared<fakes::RecordingSink>();
    engine::Request request;
    request.prompt = std::vector<TokenId>(prompt, 1);
    request.max_tokens = max_tokens;
    request.sink = sink;
    EXPECT_TRUE(engine_.Submit(std::move(request)).ok());
    return sink;
  }

  fakes::FakeClock clock_;
  fakes::FakeModelRunner runner_;
  engine::EngineMetrics metrics_;
  engine::Engine engine_;
  EngineLoop loop_;
};

TEST_F(EngineLoopTest, RunsWhatIsSubmittedUntilShutdown) {
  std::thread thread([&] { loop_.Run(); });
  EXPECT_EQ(Submit()->WaitForEnd().completion_tokens, 2);
  EXPECT_EQ(Submit()->WaitForEnd().reason, engine::EndReason::kLength);
  engine_.Shutdown();
  thread.join();
  EXPECT_FALSE(loop_.StepBegan().has_value());
}

TEST_F(EngineLoopTest, WatchdogTripsOnAStepThatHangsAndNotOnIdleness) {
  Gate in_step, tripped, leave;
  runner_.set_on_launch([&](const engine::ModelBatch&) {
    in_step.Open();
    leave.Wait();
  });
  std::atomic<bool> has_tripped = false;
  Watchdog watchdog(loop_, std::chrono::seconds(10), clock_, [&] {
    has_tripped = true;
    tripped.Open();
  });
  std::thread thread([&] { loop_.Run(); });
  clock_.Advance(std::chrono::hours(1));  // idle for long: nothing is wrong
  const auto sink = Submit();
  in_step.Wait();
  ASSERT_TRUE(loop_.StepBegan().has_value());
  EXPECT_FALSE(has_tripped);
  clock_.Advance(std::chrono::seconds(11));
  tripped.Wait();
  leave.Open();
  sink->WaitForEnd();
  engine_.Shutdown();
  thread.join();
}

// A step that is predicted to be long may be long, also after many short ones.
TEST_F(EngineLoopTest, WatchdogAllowsTwentyTimesWhatIsPredicted) {
  runner_.set_on_launch([&](const engine::ModelBatch& batch) {
    clock_.Advance(batch.num_tokens * std::chrono::milliseconds(100));
  });
  std::thread thread([&] { loop_.Run(); });
  // Enough steps for a model of them.
  for (int i = 0; i < 4; ++i) Submit(12, 40)->WaitForEnd();

  Gate in_step, tripped, leave;
  runner_.set_on_launch([&](const engine::ModelBatch&) {
    in_step.Open();
    leave.Wait();
  });
  std::atomic<bool> has_tripped = false;
  CountedClock looks(clock_);
  Watchdog watchdog(loop_, std::chrono::milliseconds(200), looks, [&] {
    has_tripped = true;
    tripped.Open();
    for (int i = 0; i < 2; ++i) looks.Now();  // nobody else looks any more
  });
  const auto sink = Submit(12, 1);
  in_step.Wait();
  const Duration predicted = loop_.PredictedStep();
  EXPECT_GT(predicted, std::chrono::milliseconds(800));
  EXPECT_LT(predicted, std::chrono::milliseconds(1600));
  clock_.Advance(20 * predicted);
  looks.WaitForLooks(2);
  EXPECT_FALSE(has_tripped);
  clock_.Advance(std::chrono::milliseconds(1));
  tripped.Wait();
  leave.Open();
  sink->WaitForEnd();
  engine_.Shutdown();
  thread.join();
}

TEST_F(EngineLoopTest, BeforeAnythingIsFittedAStepMayTakeAsLongAsTheLongestYet) {
  using std::chrono::milliseconds;
  std::vector<Duration> predicted;
  runner_.set_on_launch([&](const engine::ModelBatch& batch) {
    predicted.push_back(loop_.PredictedStep());
    clock_.Advance(batch.num_tokens * milliseconds(100));
  });
  std::thread thread([&] { loop_.Run(); });
  Submit(12, 3)->WaitForEnd();
  engine_.Shutdown();
  thread.join();
  EXPECT_THAT(predicted, testing::ElementsAre(Duration(), milliseconds(1200), milliseconds(1200)));
}

}  // namespace
}  // namespace qanat::service
