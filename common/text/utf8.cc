#include "common/text/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/base/check.h"

namespace qanat::text {
namespace {

// What may follow a lead byte: how many bytes the character has, and the bounds of its second one. The
// others lie in 80..BF. The bounds keep out overlong forms, surrogates and what is above U+10FFFF.
struct Lead {
  size_t length;  // 0: no character begins so
  uint8_t low;
  uint8_t high;
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

size_t AsciiPrefix(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  size_t n = 0;
  for (uint64_t word; n + sizeof(word) <= text.size(); n += sizeof(word)) {
    std::memcpy(&word, text.data() + n, sizeof(word));
    if ((word & kHighBits) != 0) break;
  }
  while (n < text.size() && static_cast<uint8_t>(text[n]) < 0x80) ++n;
  return n;
}

}  // namespace

Utf8Unit NextUnit(std::string_view text) {
  QANAT_DCHECK(!text.empty());
  const Lead lead = LeadOf(static_cast<uint8_t>(text[0]));
  if (lead.length == 0) return {Utf8Unit::Kind::kBroken, 1};
  const size_t end = std::min(lead.length, text.size());
  for (size_t i = 1; i < end; ++i) {
    const uint8_t byte = static_cast<uint8_t>(text[i]);
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return {Utf8Unit::Kind::kBroken, i};
  }
  return {end == lead.length ? Utf8Unit::Kind::kCharacter : Utf8Unit::Kind::kPartial, end};
}

size_t ValidPrefix(std::string_view text) {
  size_t n = 0;
  while (n < text.size()) {
    n += AsciiPrefix(text.substr(n));
    if (n == text.size()) break;
    const Utf8Unit unit = NextUnit(text.substr(n));
    if (unit.kind != Utf8Unit::Kind::kCharacter) break;
    n += unit.length;
  }
  return n;
}

void ForEachRun(std::string_view text, absl::FunctionRef<void(std::string_view)> valid,
                absl::FunctionRef<void(std::string_view)> broken) {
  while (!text.empty()) {
    const size_t whole = ValidPrefix(text);
    if (whole > 0) valid(text.substr(0, whole));
    text.remove_prefix(whole);
    if (text.empty()) return;
    const size_t length = NextUnit(text).length;
    for (size_t i = 0; i < length; ++i) broken(text.substr(i, 1));
    text.remove_prefix(length);
  }
}

size_t AppendCharacters(std::string_view text, std::string& out) {
  while (!text.empty()) {
    const size_t valid = ValidPrefix(text);
    out.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) break;
    const Utf8Unit unit = NextUnit(text);
    if (unit.kind == Utf8Unit::Kind::kPartial) return text.size();
    out.append(kReplacement);
    text.remove_prefix(unit.length);
  }
  return 0;
}

std::string ReplaceInvalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  if (AppendCharacters(text, out) > 0) out.append(kReplacement);
  return out;
}

}  // namespace qanat::text
