#include "router/cluster/ticker.h"

#include <chrono>
#include <utility>

namespace qanat::router {

Ticker::Ticker(Duration period, std::function<void()> tick)
    : period_(period), tick_(std::move(tick)), thread_([this] { Run(); }) {}

Ticker::~Ticker() {
  {
    MutexLock lock(mu_);
    stopped_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void Ticker::Run() {
  for (;;) {
    {
      const auto until = std::chrono::steady_clock::now() + period_;
      MutexLock lock(mu_);
      for (;;) {
        if (stopped_) return;
        const auto left = until - std::chrono::steady_clock::now();
        if (left <= Duration::zero()) break;
        changed_.WaitFor(mu_, left);
      }
    }
    tick_();
  }
}

}  // namespace qanat::router
