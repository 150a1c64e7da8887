#include "common/rpc/signals.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>

#include "common/base/check.h"

namespace qanat::rpc {
namespace {

sigset_t Both() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

TerminationSignals::TerminationSignals() {
  const sigset_t set = Both();
  QANAT_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0) << "signals cannot be blocked";
}

int TerminationSignals::Wait() {
  const sigset_t set = Both();
  int signal = 0;
  while (sigwait(&set, &signal) != 0) {
  }
  return signal;
}

int TerminationSignals::WaitFor(Duration timeout) {
  const sigset_t set = Both();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec left{.tv_sec = seconds.count(), .tv_nsec = (timeout - seconds).count()};
  int signal = 0;
  // Interrupted by another signal: it waits anew, which is longer and does no harm.
  do {
    signal = sigtimedwait(&set, nullptr, &left);
  } while (signal < 0 && errno == EINTR);
  return std::max(signal, 0);
}

}  // namespace qanat::rpc
