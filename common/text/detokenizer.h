// Token ids to text while they are generated.
#pragma once

#include <string>

#include "common/base/ids.h"
#include "common/text/tokenizer.h"

namespace qanat::text {

// The text of one growing answer, never a broken character.
// Holds at most 3 bytes; `tokenizer` outlives it. One for each choice of a request.
// One thread at a time.
// No errors: bytes that are no text become U+FFFD.
//
// Bytes that may still become a character are held back until the token that completes it. Bytes that cannot
// are shown as one U+FFFD for each maximal subpart (utf8.h) as soon as the next byte proves it, and what is
// still held at the end is one U+FFFD. Where the vocabulary puts a blank before a text, one leading blank of
// the answer is dropped, and no more than one. So, for any ids:
//   Append(id 0) + Append(id 1) + ... + Flush() == tokenizer.Decode(ids)
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // The characters that `id` completes, perhaps none. REQUIRES: id is in the tokenizer's range.
  std::string Append(TokenId id);

  // Ends the answer: empty, or one U+FFFD for a character that was never completed. Ready for a new one.
  std::string Flush();

  // Bytes held back, 0 to 3.
  int held_bytes() const { return static_cast<int>(held_.size()); }

 private:
  const Tokenizer& tokenizer_;
  std::string held_;      // a partial character
  bool at_start_ = true;  // no token has added anything yet
};

}  // namespace qanat::text
