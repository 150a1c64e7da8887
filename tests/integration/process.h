// A program under test.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace qanat::integration {

// What: one child process. Owns it: it is killed when this goes, or when the test process dies in whatever
// way. Threads: one at a time, the one that made it (the kernel ends the child with that thread). Errors: a
// program that cannot be run exits with 127.
class Process {
 public:
  // Runs `command`, its standard output read by AwaitLine() and its standard error appended to `log`.
  Process(const std::vector<std::string>& command, const std::string& log);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // The next line of output that holds `text`; empty when there is none within `patience` or the program
  // ended.
  std::string AwaitLine(const std::string& text, std::chrono::seconds patience);
  // Sends a signal.
  void Signal(int signal);
  // Waits for the end, `patience` at most; the exit status, 128 + N after signal N, -1 when it still runs.
  int Wait(std::chrono::seconds patience);

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  std::string read_;  // of output_, not yet handed out
  bool ended_ = false;
};

// What a program that ends by itself said.
struct Outcome {
  int exit = 0;
  std::string output;  // standard output
  std::string errors;  // standard error
};

// Runs a program to its end, `input` as its standard input.
Outcome RunToEnd(const std::vector<std::string>& command, const std::string& input = "");

}  // namespace qanat::integration
