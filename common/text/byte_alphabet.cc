#include "common/text/byte_alphabet.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace qanat::text {
namespace {

constexpr int kLetters = 256 + 68;  // code points in use end here

bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// Byte by code point, -1 where there is none.
std::array<int, kLetters> MakeTable() {
  std::array<int, kLetters> table;
  table.fill(-1);
  size_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    table[StandsForItself(byte) ? static_cast<size_t>(byte) : next++] = byte;
  }
  return table;
}

// Takes a character of one or two bytes, all that the alphabet has; -1 for any other.
int TakeCodePoint(std::string_view& text) {
  const uint8_t lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) {
    text.remove_prefix(1);
    return lead;
  }
  if (lead < 0xC2 || lead >= 0xE0 || text.size() < 2) return -1;
  const uint8_t second = static_cast<uint8_t>(text[1]);
  if ((second & 0xC0) != 0x80) return -1;
  text.remove_prefix(2);
  return ((lead & 0x1F) << 6) | (second & 0x3F);
}

}  // namespace

std::optional<std::string> FromByteAlphabet(std::string_view text) {
  static const std::array<int, kLetters> kTable = MakeTable();
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const int code = TakeCodePoint(text);
    if (code < 0 || code >= kLetters || kTable[static_cast<size_t>(code)] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kTable[static_cast<size_t>(code)]));
  }
  return bytes;
}

}  // namespace qanat::text
