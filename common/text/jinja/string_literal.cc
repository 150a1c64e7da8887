#include "common/text/jinja/string_literal.h"

#include <charconv>
#include <cstdint>

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/unicode.h"

namespace qanat::text::jinja {
namespace {

// The code point of `digits` at the front of `text`, all of which must be digits of `base`.
absl::StatusOr<char32_t> ReadCodePoint(std::string_view text, size_t digits, int base) {
  uint32_t value = 0;
  const std::string_view number = text.substr(0, digits);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value, base);
  if (number.size() < digits || error != std::errc() || end != number.data() + digits) {
    return absl::InvalidArgumentError("a cut escape in a string");
  }
  if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
    return absl::InvalidArgumentError("an escape in a string names no character");
  }
  return static_cast<char32_t>(value);
}

bool IsOctal(char c) { return c >= '0' && c <= '7'; }

size_t OctalDigits(std::string_view text) {
  size_t n = 0;
  while (n < 3 && n < text.size() && IsOctal(text[n])) ++n;
  return n;
}

// The character that a single letter after a backslash stands for, or -1.
int SimpleEscape(char c) {
  constexpr std::string_view kLetters = "\\'\"abfnrtv";
  constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  const size_t at = kLetters.find(c);
  return at == std::string_view::npos ? -1 : kMeanings[at];
}

}  // namespace

absl::StatusOr<std::string> Unescape(std::string_view literal) {
  std::string out;
  for (size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 == literal.size()) {
      out.push_back(literal[i]);
      continue;
    }
    const char c = literal[++i];
    const std::string_view rest = literal.substr(i + 1);
    if (const int simple = SimpleEscape(c); simple >= 0) {
      out.push_back(static_cast<char>(simple));
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      QANAT_ASSIGN_OR_RETURN(const char32_t code_point, ReadCodePoint(rest, digits, 16));
      AppendUtf8(code_point, out);
      i += digits;
    } else if (IsOctal(c)) {
      const size_t digits = OctalDigits(literal.substr(i));
      QANAT_ASSIGN_OR_RETURN(const char32_t code_point, ReadCodePoint(literal.substr(i), digits, 8));
      AppendUtf8(code_point, out);
      i += digits - 1;
    } else if (c == 'N') {
      return absl::InvalidArgumentError("\\N{...} in a string is not supported");
    } else if (c != '\n') {
      out.push_back('\\');
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace qanat::text::jinja
