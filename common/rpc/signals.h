// SIGINT and SIGTERM as something to wait for.
#pragma once

namespace qanat::rpc {

// What: takes the two signals off the process's handlers, so that they end nothing by themselves.
// Threads: make it in main() before any thread starts, since threads inherit what is blocked.
class TerminationSignals {
 public:
  TerminationSignals();

  // Blocks until one comes; its number. One that came before counts.
  int Wait();
};

}  // namespace qanat::rpc
