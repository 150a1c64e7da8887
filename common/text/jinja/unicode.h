// What Python's str knows of characters: blanks, what repr() escapes, upper, lower and title case.
// Unicode 14, as Python 3.11. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/text/jinja/text.h"

namespace qanat::text::jinja {

// A character of UTF-8 text. A byte or bytes that are no character count as one of value kNoCharacter.
struct CodePoint {
  static constexpr char32_t kNoCharacter = 0xFFFFFFFF;
  char32_t value;
  size_t length;  // in bytes, at least 1
};

// REQUIRES: begin < text.size().
CodePoint CodePointAt(std::string_view text, size_t begin);
// Where the character that ends at `end` begins. REQUIRES: 0 < end <= text.size().
size_t PreviousStart(std::string_view text, size_t end);
size_t CountCodePoints(std::string_view text);
void AppendUtf8(char32_t code_point, std::string& out);

bool IsSpace(char32_t c);
bool IsPrintable(char32_t c);
bool IsCased(char32_t c);

enum class LetterCase { kUpper, kLower, kTitle };

// str.upper() and str.lower(); kTitle turns each character to title case. The marks of who wrote what stay.
Text ConvertCase(const Text& text, LetterCase to);
// str.capitalize().
Text Capitalize(const Text& text);
// str.title(): every letter that follows no letter in title case, the others in lower case.
Text TitleCase(const Text& text);

}  // namespace qanat::text::jinja
