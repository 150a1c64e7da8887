// Work that must not run twice at once, on a pool whose threads are everybody's.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "common/base/task_pool.h"

namespace qanat::service {

// What: runs `body` on the pool whenever it was scheduled, never twice at once; Schedule during a run makes
// it run again, so that nothing that happened before a Schedule is missed. Owned by what `body` works on;
// `pool` outlives it. Threads: Schedule from any thread, also from inside `body`. Errors: none; when the
// pool's queue is full the body runs on the thread that scheduled it.
class SerialTask {
 public:
  SerialTask(TaskPool& pool, std::function<void()> body) : pool_(pool), body_(std::move(body)) {}

  // `owner` keeps this alive until the run is over.
  void Schedule(std::shared_ptr<void> owner);

 private:
  enum State : int { kIdle, kQueued, kRunning, kRunningAgain };

  void Run();

  TaskPool& pool_;
  const std::function<void()> body_;
  std::atomic<int> state_ = kIdle;
};

}  // namespace qanat::service
