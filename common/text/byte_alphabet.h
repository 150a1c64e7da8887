// The byte-level alphabet of GPT-2: every byte as one printable character, so that any bytes can be written
// as the text of a token. Printable Latin-1 bytes stand for themselves; the 68 others are U+0100 on, in
// order. So ' ' is 'Ġ' (U+0120) and '\n' is 'Ċ' (U+010A).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace qanat::text {

// The bytes that `text` spells; nothing when it has a character outside the alphabet.
std::optional<std::string> FromByteAlphabet(std::string_view text);

}  // namespace qanat::text
