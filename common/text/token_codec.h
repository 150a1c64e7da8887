// What one value of tokenizer.ggml.model means.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/text/vocabulary.h"

namespace qanat::text {

// Text to tokens and tokens to bytes by one algorithm. Knows nothing of special tokens, which the Tokenizer
// finds first.
// Owns its tables, and none of the vocabulary that it was made of.
// Immutable: any number of threads may use one.
// Create has errors (see there), nothing else has: any bytes encode.
class TokenCodec {
 public:
  // The algorithm of `vocabulary.model`, and its demands checked together with CheckVocabulary's.
  // UNIMPLEMENTED for a model or a rule that this build does not know, else INVALID_ARGUMENT; FieldOf() the
  // status is the GGUF key at fault.
  static absl::StatusOr<std::unique_ptr<const TokenCodec>> Create(const Vocabulary& vocabulary);
  virtual ~TokenCodec() = default;

  // Appends the tokens of `text`, which stands at the beginning of a text or behind a special token. Bytes
  // that are not UTF-8 are taken one by one; a byte for which there is no token gives nothing.
  // Near-linear in the text. REQUIRES: text is shorter than 4 GiB.
  virtual void Encode(std::string_view text, std::vector<TokenId>& out) const = 0;

  // The raw bytes a token adds to a text, not always whole characters. Empty for control, unknown and unused
  // tokens. REQUIRES: id is in the vocabulary.
  virtual std::string_view Bytes(TokenId id) const = 0;

  // Encoding puts a blank before a text, so that decoding takes one away.
  virtual bool adds_blank() const = 0;
};

}  // namespace qanat::text
