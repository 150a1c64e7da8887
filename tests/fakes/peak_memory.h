// How much memory a test's subject takes at its peak.
#pragma once

#include <malloc.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace qanat::fakes {

// What: resident memory since it was made, beyond what was resident then. Pages of mapped files count too.
// Threads: one; one at a time in a process. Under sanitizers the figures mean nothing: they keep freed
// memory.
class PeakMemory {
 public:
  PeakMemory() {
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << 5;  // the peak begins anew
    before_ = Bytes("VmRSS:");
  }

  int64_t ExtraBytes() const { return Bytes("VmHWM:") - before_; }

 private:
  static int64_t Bytes(const std::string& name) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind(name, 0) == 0) return std::stoll(line.substr(name.size())) * 1024;
    }
    ADD_FAILURE() << "/proc/self/status has no " << name;
    return 0;
  }

  int64_t before_;
};

}  // namespace qanat::fakes
