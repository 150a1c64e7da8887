#include "tests/integration/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/base/check.h"

namespace qanat::integration {
namespace {

int MillisecondsUntil(std::chrono::steady_clock::time_point end) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  return static_cast<int>(std::max<int64_t>(left.count(), 0));
}

// Between fork and exec only what is allowed there: no allocation.
[[noreturn]] void Become(char* const* arguments, int input, int output, int errors, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the line above.
  if (getppid() != parent) _exit(127);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv(arguments[0], arguments);
  _exit(127);
}

pid_t Start(const std::vector<std::string>& command, int input, int output, int errors) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  QANAT_CHECK(child >= 0) << "fork failed";
  if (child == 0) Become(arguments.data(), input, output, errors, parent);
  return child;
}

int ExitOf(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

}  // namespace

Process::Process(const std::vector<std::string>& command, const std::string& log) {
  int ends[2];
  QANAT_CHECK(pipe2(ends, O_CLOEXEC) == 0) << "no pipe";
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int errors = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  QANAT_CHECK(nothing >= 0 && errors >= 0) << "cannot write " << log;
  pid_ = Start(command, nothing, ends[1], errors);
  output_ = ends[0];
  close(ends[1]);
  close(nothing);
  close(errors);
}

Process::~Process() {
  Signal(SIGKILL);
  Wait(std::chrono::seconds(10));
  close(output_);
}

std::string Process::AwaitLine(const std::string& text, std::chrono::seconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    for (size_t stop; (stop = read_.find('\n')) != std::string::npos;) {
      const std::string line = read_.substr(0, stop);
      read_.erase(0, stop + 1);
      if (line.find(text) != std::string::npos) return line;
    }
    pollfd waiting{output_, POLLIN, 0};
    if (poll(&waiting, 1, MillisecondsUntil(end)) <= 0) return "";
    char buffer[4096];
    const ssize_t bytes = read(output_, buffer, sizeof(buffer));
    if (bytes <= 0) return "";
    read_.append(buffer, static_cast<size_t>(bytes));
  }
}

void Process::Signal(int signal) {
  if (!ended_) kill(pid_, signal);
}

int Process::Wait(std::chrono::seconds patience) {
  if (ended_) return -1;
  // A descriptor of the process becomes readable when it ends: no need to ask again and again.
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  QANAT_CHECK(handle >= 0) << "no pidfd";
  pollfd waiting{handle, POLLIN, 0};
  const int ready = poll(&waiting, 1, MillisecondsUntil(std::chrono::steady_clock::now() + patience));
  close(handle);
  if (ready <= 0) return -1;
  int status = 0;
  QANAT_CHECK(waitpid(pid_, &status, 0) == pid_) << "the child is not ours";
  ended_ = true;
  return ExitOf(status);
}

Outcome RunToEnd(const std::vector<std::string>& command, const std::string& input) {
  FILE* const in = std::tmpfile();
  FILE* const out = std::tmpfile();
  FILE* const err = std::tmpfile();
  QANAT_CHECK(in != nullptr && out != nullptr && err != nullptr) << "no temporary files";
  std::fwrite(input.data(), 1, input.size(), in);
  std::rewind(in);
  const pid_t child = Start(command, fileno(in), fileno(out), fileno(err));
  int status = 0;
  QANAT_CHECK(waitpid(child, &status, 0) == child) << "the child is not ours";
  const auto contents = [](FILE* file) {
    std::string text;
    std::rewind(file);
    char buffer[4096];
    for (size_t bytes; (bytes = std::fread(buffer, 1, sizeof(buffer), file)) > 0;) text.append(buffer, bytes);
    std::fclose(file);
    return text;
  };
  std::fclose(in);
  Outcome outcome;
  outcome.exit = ExitOf(status);
  outcome.output = contents(out);
  outcome.errors = contents(err);
  return outcome;
}

}  // namespace qanat::integration
