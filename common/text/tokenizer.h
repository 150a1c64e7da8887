// Text to token ids and back, as the model's own file says.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/text/special_tokens.h"
#include "common/text/token_codec.h"
#include "common/text/vocabulary.h"

namespace qanat::text {

// A stretch of a chat prompt. Only text that the template itself wrote may name control tokens.
struct TextSpan {
  std::string text;
  bool control = false;
};

// Encodes and decodes with one vocabulary, by the algorithm that it names (token_codec.h).
// Owns its tables; nothing outlives it but copies.
// Immutable: any number of threads may use one.
// Create refuses a vocabulary it cannot honour, naming the GGUF key and the reason. After that no input
// fails: any bytes encode, invalid UTF-8 byte by byte.
//
// Encoding, in order: special tokens are found (leftmost first, the longest there); the text between them is
// the algorithm's. A byte for which the vocabulary has no piece encodes to nothing.
// Time: near-linear in the text, whatever the text (n log n at worst).
// REQUIRES: a text is shorter than 4 GiB.
class Tokenizer {
 public:
  // INVALID_ARGUMENT for a vocabulary that contradicts itself, UNIMPLEMENTED for a model or pre-tokenizer
  // that this build does not know; FieldOf() the status is the GGUF key, e.g. "tokenizer.ggml.merges".
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(Vocabulary vocabulary);
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Plain text: a control token's text inside it is text like any other; user-defined tokens are found.
  // Adds no BOS.
  std::vector<TokenId> Encode(std::string_view text) const;

  // The ids of the spans' texts joined, except that control tokens are found only where their whole text was
  // written by control spans (adjacent ones count as one). Words run across the borders of spans.
  std::vector<TokenId> EncodeSpans(absl::Span<const TextSpan> spans) const;

  // The raw bytes a token adds to a text, not always whole characters. Empty for control, unknown and unused
  // tokens. Valid as long as this object. REQUIRES: 0 <= id < size().
  std::string_view Bytes(TokenId id) const;

  // The token as the file writes it, e.g. "<|im_start|>" or "ĠHello". REQUIRES: 0 <= id < size().
  std::string_view TokenText(TokenId id) const { return vocabulary_.tokens[id]; }

  // The tokens' bytes joined, one leading blank taken away where the vocabulary adds one, then made valid by
  // ReplaceInvalid (utf8.h). What a Detokenizer streams.
  // REQUIRES: every id in range.
  std::string Decode(absl::Span<const TokenId> ids) const;

  // A text begins with a blank that encoding put there and decoding takes away (add_space_prefix).
  bool drops_first_blank() const { return codec_->adds_blank(); }

  const Vocabulary& vocabulary() const { return vocabulary_; }
  int size() const { return static_cast<int>(vocabulary_.tokens.size()); }
  TokenId bos() const { return vocabulary_.bos; }
  TokenId eos() const { return vocabulary_.eos; }

  // False for ids out of range.
  bool IsControl(TokenId id) const;

 private:
  class Encoding;

  Tokenizer(Vocabulary vocabulary, std::unique_ptr<const TokenCodec> codec);

  const Vocabulary vocabulary_;
  const SpecialTokens special_;
  const std::unique_ptr<const TokenCodec> codec_;
};

}  // namespace qanat::text
