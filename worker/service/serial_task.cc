#include "worker/service/serial_task.h"

#include <utility>

namespace qanat::service {

void SerialTask::Schedule(std::shared_ptr<void> owner) {
  int state = state_.load();
  int next;
  do {
    if (state == kQueued || state == kRunningAgain) return;
    next = state == kIdle ? kQueued : kRunningAgain;
  } while (!state_.compare_exchange_weak(state, next));
  if (next != kQueued) return;
  if (!pool_.TryRun([this, owner] { Run(); })) Run();
}

void SerialTask::Run() {
  int state;
  do {
    state_.store(kRunning);
    body_();
    state = kRunning;
  } while (!state_.compare_exchange_strong(state, kIdle));
}

}  // namespace qanat::service
