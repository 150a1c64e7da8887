// A thread that does something now and then.
#pragma once

#include <functional>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace qanat::router {

// What: calls a function every `period` from its making to its end. Owns its thread. Threads: made and ended
// by one. Errors: none.
class Ticker {
 public:
  Ticker(Duration period, std::function<void()> tick);
  ~Ticker();
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  void Run() EXCLUDES(mu_);

  const Duration period_;
  const std::function<void()> tick_;
  Mutex mu_;
  CondVar changed_;
  bool stopped_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace qanat::router
