#include "worker/service/engine_loop.h"

#include <algorithm>
#include <utility>

namespace qanat::service {
namespace {

// How many times within the limit the watchdog looks.
constexpr int kLooks = 8;
constexpr Duration kShortestLook = std::chrono::milliseconds(1);
// A step that takes so many times what was predicted is stuck.
constexpr int kStuckSteps = 20;

}  // namespace

void EngineLoop::Run() {
  while (engine_.WaitForWork()) {
    num_begun_.fetch_add(1, std::memory_order_relaxed);
    began_ns_.store(clock_.Now().time_since_epoch().count(), std::memory_order_relaxed);
    engine_.Step();
    began_ns_.store(kIdle, std::memory_order_relaxed);
  }
}

std::optional<Time> EngineLoop::StepBegan() const {
  const int64_t ns = began_ns_.load(std::memory_order_relaxed);
  return ns == kIdle ? std::nullopt : std::optional<Time>(Time(Duration(ns)));
}

Watchdog::Watchdog(const EngineLoop& loop, Duration limit, const Clock& clock, std::function<void()> trip)
    : loop_(loop), limit_(limit), clock_(clock), trip_(std::move(trip)), thread_([this] { Watch(); }) {}

Watchdog::~Watchdog() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  thread_.join();
}

void Watchdog::Watch() {
  const Duration look = std::max(limit_ / kLooks, kShortestLook);
  while (!Stuck()) {
    MutexLock lock(mu_);
    if (!stopping_) wake_.WaitFor(mu_, look);
    if (stopping_) return;
  }
  trip_();
}

bool Watchdog::Stuck() const {
  const std::optional<Time> began = loop_.StepBegan();
  return began.has_value() && clock_.Now() - *began > std::max(limit_, kStuckSteps * loop_.PredictedStep());
}

}  // namespace qanat::service
