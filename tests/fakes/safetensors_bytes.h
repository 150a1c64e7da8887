// Safetensors files for tests, right or wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace qanat::fakes {

// A file with `header` and `data_bytes` bytes of data: 0, 1, 2, ... `claimed`: the length that it tells.
inline std::vector<std::byte> SafeTensorsBytes(std::string_view header, size_t data_bytes, uint64_t claimed) {
  std::vector<std::byte> bytes(sizeof(claimed) + header.size() + data_bytes);
  std::memcpy(bytes.data(), &claimed, sizeof(claimed));
  if (!header.empty()) std::memcpy(bytes.data() + sizeof(claimed), header.data(), header.size());
  std::byte* const data = bytes.data() + sizeof(claimed) + header.size();
  for (size_t i = 0; i < data_bytes; ++i) data[i] = static_cast<std::byte>(i);
  return bytes;
}

inline std::vector<std::byte> SafeTensorsBytes(std::string_view header, size_t data_bytes) {
  return SafeTensorsBytes(header, data_bytes, header.size());
}

}  // namespace qanat::fakes
