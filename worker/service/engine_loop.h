// The engine thread's loop, and someone who watches it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "worker/engine/engine.h"

namespace qanat::service {

// What: steps an engine until it is shut down, and tells since when the present step runs. `engine` and
// `clock` outlive it. Threads: Run on the engine thread, StepBegan on any. Errors: none.
class EngineLoop {
 public:
  EngineLoop(engine::Engine& engine, const Clock& clock) : engine_(engine), clock_(clock) {}

  // Returns after Engine::Shutdown().
  void Run();

  // Unset between steps: an idle engine is not stuck.
  std::optional<Time> StepBegan() const;
  // Steps begun so far.
  uint64_t num_begun() const { return num_begun_.load(std::memory_order_relaxed); }
  // What the present step should take: Engine::PredictedStep.
  Duration PredictedStep() const { return engine_.PredictedStep(); }

 private:
  static constexpr int64_t kIdle = -1;

  engine::Engine& engine_;
  const Clock& clock_;
  std::atomic<int64_t> began_ns_ = kIdle;
  std::atomic<uint64_t> num_begun_ = 0;
};

// What: calls `trip` once, when a step of `loop` has taken longer than `limit`, and longer than 20 times what
// the step model predicted of it: a device that hangs does not come back, so the process must. Owns its
// thread until it is destroyed; `loop` and `clock` outlive it. Threads: `trip` runs on its own. Errors: none.
class Watchdog {
 public:
  Watchdog(const EngineLoop& loop, Duration limit, const Clock& clock, std::function<void()> trip);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void Watch() EXCLUDES(mu_);
  bool Stuck() const;

  const EngineLoop& loop_;
  const Duration limit_;
  const Clock& clock_;
  const std::function<void()> trip_;
  Mutex mu_;
  CondVar wake_;
  bool stopping_ GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace qanat::service
