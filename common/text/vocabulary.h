// What a model file tells of its tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"

namespace qanat::text {

// GGUF's tokenizer.ggml.token_type 1..6, in that order.
enum class TokenKind : uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

// Tokens that only a template may write, never a caller's text.
inline bool IsReserved(TokenKind kind) { return kind == TokenKind::kControl || kind == TokenKind::kUnknown; }

// Plain data: read from a file, or received over the wire.
struct Vocabulary {
  std::string model;                // "gpt2": byte-level BPE; "llama": SentencePiece
  std::string pre;                  // gpt2: how text is cut into words: "smollm", "llama-bpe" ...
  std::vector<std::string> tokens;  // as in the file; how it writes them depends on the model
  std::vector<TokenKind> kinds;     // one a token
  std::vector<std::string> merges;  // gpt2: "left right", best first
  std::vector<float> scores;        // llama: one a token, the higher the better
  TokenId bos = -1;                 // -1: the file names none
  TokenId eos = -1;
  TokenId unk = -1;
  TokenId pad = -1;
  std::vector<TokenId> eog;  // every id that ends a generation: eos, eot and other end markers
  bool add_bos = false;
  bool add_space_prefix = false;  // llama: a text is encoded as if a blank stood before it
  std::string chat_template;      // empty: none
};

// Whether a vocabulary is consistent in itself, whatever its model: one kind a token, no two tokens alike,
// every id inside. Else INVALID_ARGUMENT; FieldOf() the status is the GGUF key at fault. What a model demands
// beyond that, its codec checks (token_codec.h).
absl::Status CheckVocabulary(const Vocabulary& vocabulary);

}  // namespace qanat::text
