#include "worker/service/engine_loop.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "common/base/mutex.h"
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

  std::shared_ptr<fakes::RecordingSink> Submit() {
    auto sink = std::make_shared<fakes::RecordingSink>();
    engine::Request request;
    request.prompt = {1, 2, 3};
    request.max_tokens = 2;
    request.sink = sink;
    EXPECT_TRUE(engine_.Submit(std::move(request)).ok());
    return sink;
  }

  void ExpectAllowed(Duration longest, Duration allowed);

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

// After steps of `longest` on the test's clock, a watchdog of 10 s trips between `allowed` and a second
// later.
void EngineLoopTest::ExpectAllowed(Duration longest, Duration allowed) {
  runner_.set_on_launch([&](const engine::ModelBatch&) { clock_.Advance(longest); });
  std::thread thread([&] { loop_.Run(); });
  Submit()->WaitForEnd();
  EXPECT_EQ(loop_.LongestStep(), longest);

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
  const auto sink = Submit();
  in_step.Wait();
  clock_.Advance(allowed);
  EXPECT_FALSE(has_tripped);
  clock_.Advance(std::chrono::seconds(1));
  tripped.Wait();
  leave.Open();
  sink->WaitForEnd();
  engine_.Shutdown();
  thread.join();
}

TEST_F(EngineLoopTest, WatchdogAllowsTwentyOfTheLongestSteps) {
  ExpectAllowed(std::chrono::seconds(1), std::chrono::seconds(20));
}

TEST_F(EngineLoopTest, WatchdogAllowsFourLimitsAtMost) {
  ExpectAllowed(std::chrono::seconds(30), std::chrono::seconds(40));
}

}  // namespace
}  // namespace qanat::service
