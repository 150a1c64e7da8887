// tokenizer.ggml.model "gpt2": byte-level byte-pair encoding.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/text/token_codec.h"

namespace qanat::text {

// Text is cut into words by the pattern of `pre`; each word's bytes are merged, best rank first, leftmost of
// equals. Normal tokens are written in the byte-level alphabet (byte_alphabet.h), the others plainly.
//
// Beside CheckVocabulary: no token is of type byte, `pre` is known, and every merge is two tokens that make a
// third, none of them reserved.
absl::StatusOr<std::unique_ptr<const TokenCodec>> CreateByteLevelCodec(const Vocabulary& vocabulary);

}  // namespace qanat::text
