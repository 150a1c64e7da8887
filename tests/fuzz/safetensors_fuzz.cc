// Input: the header of a safetensors file, which gets as many bytes of data as its largest offset asks for
// (up to 64 KiB); or, when it begins with a byte FF, all that follows as the whole file.
//
// Laws:
//  1 the file is refused by its name, or read
//  2 the tensors of a file that is read follow each other from the header to its end, each as large as its
//    shape and type
//  3 it is found by its name, and no name comes twice
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "worker/model/weights/safetensors.h"

namespace qanat::model {
namespace {

void CheckFile(const SafeTensorsFile& file) {
  uint64_t header = 0;
  std::memcpy(&header, file.bytes().data(), sizeof(header));
  const std::byte* next = file.bytes().data() + sizeof(header) + header;
  for (const SafeTensor& tensor : file.tensors()) {
    QANAT_CHECK(tensor.data.data() == next);
    next += tensor.data.size();
    uint64_t bits = static_cast<uint64_t>(tensor.type->bits);
    for (const uint64_t dim : tensor.shape) bits *= dim;
    QANAT_CHECK(bits == tensor.data.size() * 8);
    QANAT_CHECK(file.FindTensor(tensor.name) == &tensor);
  }
  QANAT_CHECK(next == file.bytes().data() + file.bytes().size());
}

void Read(absl::Span<const std::byte> bytes) {
  const auto file = SafeTensorsFile::Parse("fuzz.safetensors", bytes);
  if (file.ok()) return CheckFile(**file);
  QANAT_CHECK(file.status().message().substr(0, 18) == "fuzz.safetensors: ") << file.status().ToString();
  QANAT_CHECK(file.status().message().size() < 1000) << file.status().ToString();
}

// The largest number in the text that is not too large.
uint64_t LargestNumber(std::string_view header) {
  constexpr uint64_t kMost = 64 << 10;
  uint64_t largest = 0;
  uint64_t number = 0;
  for (const char c : header) {
    const bool digit = c >= '0' && c <= '9';
    number = digit ? std::min<uint64_t>(number * 10 + static_cast<uint64_t>(c - '0'), kMost + 1) : 0;
    if (number <= kMost) largest = std::max(largest, number);
  }
  return largest;
}

void ReadHeader(std::string_view header) {
  static auto& bytes = *new std::vector<std::byte>;
  // A shape may hold a larger number than the offsets do: then a shorter file is right.
  for (const uint64_t data : {LargestNumber(header), uint64_t{16}}) {
    const uint64_t length = header.size();
    bytes.assign(sizeof(length) + header.size() + data, std::byte{0});
    std::memcpy(bytes.data(), &length, sizeof(length));
    if (!header.empty()) std::memcpy(bytes.data() + sizeof(length), header.data(), header.size());
    Read(bytes);
  }
}

}  // namespace
}  // namespace qanat::model

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && data[0] == 0xFF) {
    qanat::model::Read({reinterpret_cast<const std::byte*>(data + 1), size - 1});
  } else {
    qanat::model::ReadHeader({reinterpret_cast<const char*>(data), size});
  }
  return 0;
}
