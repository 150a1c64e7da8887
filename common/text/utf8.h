// UTF-8 as bytes: where a character ends, what is broken, what to show instead.
//
// Broken text is cut as the WHATWG decoder and Unicode (section 3.9, table 3-7) do: into maximal subparts. A
// maximal subpart is the longest run of bytes that begins a character and could have become one, or else a
// single byte. Each becomes one U+FFFD. So "E2 82 41" is U+FFFD, 'A'; "C0 80" is U+FFFD, U+FFFD; and
// "F0 9F 94" at the very end of a text is one U+FFFD.
//
// Pure functions; any bytes are allowed in.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace qanat::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// What stands at the front of some text.
struct Utf8Unit {
  enum class Kind {
    kCharacter,  // a whole character
    kBroken,     // a maximal subpart that no further byte can repair
    kPartial,    // the text ends inside a character; more bytes may complete it
  };
  Kind kind;
  size_t length;  // in bytes, 1 to 4
};

// REQUIRES: text is not empty.
Utf8Unit NextUnit(std::string_view text);

// How many bytes at the front are whole, valid characters.
size_t ValidPrefix(std::string_view text);

inline bool IsValidUtf8(std::string_view text) { return ValidPrefix(text) == text.size(); }

// Cuts `text`: calls `valid` with each longest stretch of whole characters and `broken` with every other
// byte, in order.
void ForEachRun(std::string_view text, absl::FunctionRef<void(std::string_view)> valid,
                absl::FunctionRef<void(std::string_view)> broken);

// Appends `text` to `out`, each maximal subpart that is not a character as U+FFFD. A partial character at
// the end is left out; the number of its bytes (0 to 3) is returned.
size_t AppendCharacters(std::string_view text, std::string& out);

// All of `text`, each maximal subpart that is not a character, a partial one at the end too, as U+FFFD.
std::string ReplaceInvalid(std::string_view text);

}  // namespace qanat::text
