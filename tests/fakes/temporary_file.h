// A file that lives as long as a test.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <unistd.h>

#include "absl/types/span.h"
#include "gtest/gtest.h"

namespace qanat::fakes {

// What: writes bytes to a file of its own name and removes it. Threads: one.
class TemporaryFile {
 public:
  explicit TemporaryFile(absl::Span<const std::byte> bytes)
      : path_(testing::TempDir() + "qanat_" + std::to_string(getpid()) + "_" + std::to_string(++count)) {
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    file.close();
    EXPECT_TRUE(file.good()) << path_;
  }
  explicit TemporaryFile(std::string_view text)
      : TemporaryFile(absl::Span(reinterpret_cast<const std::byte*>(text.data()), text.size())) {}
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  static inline int count = 0;
  const std::string path_;
};

}  // namespace qanat::fakes
