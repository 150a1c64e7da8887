// A /proc and a /sys of one's own.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include "gtest/gtest.h"

namespace qanat::fakes {

// What: a folder to put before /proc and /sys. Owns it and removes it. Threads: one.
class FakeSystem {
 public:
  explicit FakeSystem(const std::string& name)
      : root_(testing::TempDir() + "system_" + std::to_string(getpid()) + "_" + name) {}
  ~FakeSystem() { std::filesystem::remove_all(root_); }
  FakeSystem(const FakeSystem&) = delete;
  FakeSystem& operator=(const FakeSystem&) = delete;

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  const std::string& root() const { return root_; }

 private:
  const std::string root_;
};

}  // namespace qanat::fakes
