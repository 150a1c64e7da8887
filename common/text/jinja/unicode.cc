#include "common/text/jinja/unicode.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "common/base/check.h"
#include "common/text/utf8.h"

namespace qanat::text::jinja {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Every `stride`th code point of first..last maps to itself + delta.
struct CaseRange {
  char32_t first;
  char32_t last;
  uint8_t stride;
  int32_t delta;
};

// Maps to several characters.
struct SpecialCase {
  char32_t from;
  const char* to;
};

#include "common/text/jinja/unicode_tables.inc"

constexpr char32_t kCapitalSigma = 0x3A3;
constexpr char32_t kFinalSigma = 0x3C2;

template <typename Entry, size_t n>
const Entry* Find(const Entry (&table)[n], char32_t c) {
  const Entry* entry = std::upper_bound(std::begin(table), std::end(table), c,
                                        [](char32_t value, const Entry& e) { return value < e.first; });
  if (entry == std::begin(table)) return nullptr;
  --entry;
  return c <= entry->last ? entry : nullptr;
}

template <size_t n>
const SpecialCase* Find(const SpecialCase (&table)[n], char32_t c) {
  const auto* entry = std::lower_bound(std::begin(table), std::end(table), c,
                                       [](const SpecialCase& e, char32_t value) { return e.from < value; });
  return entry != std::end(table) && entry->from == c ? entry : nullptr;
}

template <size_t n, size_t m>
bool AppendMapped(const CaseRange (&table)[n], const SpecialCase (&specials)[m], char32_t c,
                  std::string& out) {
  if (const SpecialCase* special = Find(specials, c)) {
    out.append(special->to);
    return true;
  }
  const CaseRange* range = Find(table, c);
  if (range == nullptr || (c - range->first) % range->stride != 0) return false;
  AppendUtf8(static_cast<char32_t>(static_cast<int64_t>(c) + range->delta), out);
  return true;
}

// Appends `c` in case `to`; nothing and false when it is its own.
bool AppendInCase(char32_t c, LetterCase to, std::string& out) {
  switch (to) {
    case LetterCase::kUpper:
      return AppendMapped(kUpper, kUpperSpecial, c, out);
    case LetterCase::kLower:
      return AppendMapped(kLower, kLowerSpecial, c, out);
    case LetterCase::kTitle:
      return AppendMapped(kTitle, kTitleSpecial, c, out) || AppendMapped(kUpper, kUpperSpecial, c, out);
  }
  return false;
}

// The nearest character that is not ignorable, before or after `at`, is a letter.
bool CasedBefore(std::string_view text, size_t at) {
  while (at > 0) {
    at = PreviousStart(text, at);
    const char32_t c = CodePointAt(text, at).value;
    if (Find(kCaseIgnorable, c) == nullptr) return IsCased(c);
  }
  return false;
}

bool CasedAfter(std::string_view text, size_t at) {
  while (at < text.size()) {
    const CodePoint c = CodePointAt(text, at);
    if (Find(kCaseIgnorable, c.value) == nullptr) return IsCased(c.value);
    at += c.length;
  }
  return false;
}

// Converts text[begin, end) into `out`; what stands around it decides the form of a sigma.
void AppendConverted(const Text& text, size_t begin, size_t end, LetterCase to, Text& out) {
  std::string mapped;
  while (begin < end) {
    const CodePoint c = CodePointAt(text.bytes(), begin);
    mapped.clear();
    if (to == LetterCase::kLower && c.value == kCapitalSigma && CasedBefore(text.bytes(), begin) &&
        !CasedAfter(text.bytes(), begin + c.length)) {
      AppendUtf8(kFinalSigma, mapped);
    } else if (!AppendInCase(c.value, to, mapped)) {
      mapped.assign(text.bytes(), begin, c.length);
    }
    out.Append(mapped, text.IsControl(begin));
    begin += c.length;
  }
}

}  // namespace

CodePoint CodePointAt(std::string_view text, size_t begin) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[begin + i])); };
  if (byte(0) < 0x80) return {byte(0), 1};
  const Utf8Unit unit = NextUnit(text.substr(begin, 4));
  if (unit.kind != Utf8Unit::Kind::kCharacter) return {CodePoint::kNoCharacter, unit.length};
  char32_t value = byte(0) & (0xFFu >> (unit.length + 1));
  for (size_t i = 1; i < unit.length; ++i) value = value << 6 | (byte(i) & 0x3F);
  return {value, unit.length};
}

size_t PreviousStart(std::string_view text, size_t end) {
  QANAT_DCHECK(end > 0 && end <= text.size());
  for (size_t length = 4; length > 1; --length) {
    if (length > end) continue;
    if (CodePointAt(text.substr(0, end), end - length).length == length) return end - length;
  }
  return end - 1;
}

size_t CountCodePoints(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += CodePointAt(text, at).length) ++count;
  return count;
}

void AppendUtf8(char32_t c, std::string& out) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(static_cast<uint8_t>(byte))); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

bool IsSpace(char32_t c) { return Find(kSpace, c) != nullptr; }
bool IsPrintable(char32_t c) { return c <= 0x10FFFF && Find(kUnprintable, c) == nullptr; }
bool IsCased(char32_t c) { return Find(kCased, c) != nullptr; }

Text ConvertCase(const Text& text, LetterCase to) {
  Text out;
  AppendConverted(text, 0, text.size(), to, out);
  return out;
}

Text Capitalize(const Text& text) {
  Text out;
  if (text.empty()) return out;
  const size_t first = CodePointAt(text.bytes(), 0).length;
  AppendConverted(text, 0, first, LetterCase::kTitle, out);
  AppendConverted(text, first, text.size(), LetterCase::kLower, out);
  return out;
}

Text TitleCase(const Text& text) {
  Text out;
  bool after_letter = false;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = CodePointAt(text.bytes(), at);
    AppendConverted(text, at, at + c.length, after_letter ? LetterCase::kLower : LetterCase::kTitle, out);
    after_letter = IsCased(c.value);
    at += c.length;
  }
  return out;
}

}  // namespace qanat::text::jinja
