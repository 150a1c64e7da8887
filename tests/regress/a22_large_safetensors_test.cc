// A22 for the other format: a header that keeps every promise until its last entry takes bounded memory.
#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/peak_memory.h"
#include "tests/fakes/safetensors_bytes.h"
#include "tests/fakes/temporary_file.h"
#include "worker/model/weights/safetensors.h"

namespace qanat::model {
namespace {

void ExpectRefusedCheaply(const std::string& header, const char* reason) {
  const fakes::TemporaryFile file(fakes::SafeTensorsBytes(header, 0));
  const fakes::PeakMemory memory;
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = SafeTensorsFile::Open(file.path()).status();
  const auto taken = std::chrono::steady_clock::now() - start;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(reason));
#if !defined(QANAT_DEBUG_CHECKS)
  EXPECT_LT(taken, std::chrono::seconds(1));
  EXPECT_LT(memory.ExtraBytes(), (int64_t{50} << 20) + static_cast<int64_t>(header.size()));
#endif
}

// As many tensors as are allowed, each with as many dimensions and nearly as long a name as are.
TEST(A22LargeSafeTensorsTest, AsManyTensorsAsAreAllowedTakeLittle) {
  std::string shape = "0";
  for (uint64_t i = 1; i < SafeTensorsFile::kMaxDims; ++i) shape += ",1";
  const std::string name(SafeTensorsFile::kMaxStringsBytes / SafeTensorsFile::kMaxTensors - 60, 'x');
  std::string header = "{";
  for (uint64_t i = 0; i <= SafeTensorsFile::kMaxTensors; ++i) {
    absl::StrAppend(&header, i == 0 ? "" : ",", "\"", name, i, "\":{\"dtype\":\"U8\",\"shape\":[", shape,
                    "],\"data_offsets\":[0,0]}");
  }
  ExpectRefusedCheaply(header + "}", "more than 65536 tensors");
}

TEST(A22LargeSafeTensorsTest, LongTextsTakeLittle) {
  std::string header = R"({"__metadata__":{)";
  for (int i = 0; i < 3; ++i) absl::StrAppend(&header, "\"", i, "\":\"", std::string(4 << 20, 'x'), "\",");
  ExpectRefusedCheaply(header + R"("0":""}})", "'0' comes twice");
  ExpectRefusedCheaply("{\"" + std::string(60 << 20, 'x') + "\":{}}", "a string of more than");
}

}  // namespace
}  // namespace qanat::model
