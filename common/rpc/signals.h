// SIGINT and SIGTERM as something to wait for.
#pragma once

#include "common/base/clock.h"

namespace qanat::rpc {

// What: takes the two signals off the process's handlers, so that they end nothing by themselves.
// Threads: make it in main() before any thread starts, since threads inherit what is blocked.
class TerminationSignals {
 public:
  TerminationSignals();

  // Blocks until one comes; its number. One that came before counts.
  int Wait();
  // Blocks until one comes, `timeout` at most; 0 when none came.
  int WaitFor(Duration timeout);
};

}  // namespace qanat::rpc
