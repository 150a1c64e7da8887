// tokenizer.ggml.model "llama": SentencePiece's byte-pair encoding with byte fallback.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/text/token_codec.h"

namespace qanat::text {

// A text is one word: from its characters on, the adjacent pair that makes the piece of the best score is
// merged, leftmost of equals; what is no piece then becomes its bytes. Normal pieces write a blank as U+2581,
// and a U+2581 in a text is a blank; user-defined tokens are written with real blanks; a byte is <0x00> to
// <0xFF>. With add_space_prefix a blank is put before each text that is encoded, so that a word is the same
// piece wherever it stands. Only normal pieces and bytes come out.
//
// Beside CheckVocabulary: one score a token, each a number, and every token of type byte is written as one.
absl::StatusOr<std::unique_ptr<const TokenCodec>> CreateSentencePieceCodec(const Vocabulary& vocabulary);

}  // namespace qanat::text
