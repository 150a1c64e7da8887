// Small vocabularies for tests, built instead of read.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/vocabulary.h"

namespace qanat::fakes {

// Bytes in the byte-level alphabet of GPT-2, written out as its authors describe it.
inline std::string ToByteAlphabet(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const int byte = static_cast<unsigned char>(c);
    const auto printable = [](int b) {
      return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    };
    int code = byte;
    if (!printable(byte)) {
      code = 256;
      for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
    }
    if (code < 0x80) {
      text.push_back(static_cast<char>(code));
    } else {
      text.push_back(static_cast<char>(0xC0 | (code >> 6)));
      text.push_back(static_cast<char>(0x80 | (code & 0x3F)));
    }
  }
  return text;
}

// Adds a token, unless it is there.
inline void AddToken(text::Vocabulary& vocabulary, std::string token, text::TokenKind kind) {
  auto& tokens = vocabulary.tokens;
  if (std::find(tokens.begin(), tokens.end(), token) != tokens.end()) return;
  tokens.push_back(std::move(token));
  vocabulary.kinds.push_back(kind);
}

// The beginning of a vocabulary of byte-level BPE: <|endoftext|>, <|im_start|>, <|im_end|> (control; eos is
// the last, bos the one before).
inline text::Vocabulary ControlTokens(std::string pre = "smollm") {
  text::Vocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = std::move(pre);
  for (const char* token : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    AddToken(vocabulary, token, text::TokenKind::kControl);
  }
  vocabulary.bos = 1;
  vocabulary.eos = 2;
  vocabulary.unk = 0;
  vocabulary.pad = 2;
  vocabulary.eog = {2};
  return vocabulary;
}

// In this order: the control tokens, <tool> and </tool> (user-defined), the 256 bytes, one token for each
// merge. `merges`: pairs of plain bytes, best first.
inline text::Vocabulary ByteLevelVocabulary(const std::vector<std::pair<std::string, std::string>>& merges,
                                            std::string pre = "smollm") {
  text::Vocabulary vocabulary = ControlTokens(std::move(pre));
  for (const char* token : {"<tool>", "</tool>"}) AddToken(vocabulary, token, text::TokenKind::kUserDefined);
  for (int byte = 0; byte < 256; ++byte) {
    AddToken(vocabulary, ToByteAlphabet(std::string(1, static_cast<char>(byte))), text::TokenKind::kNormal);
  }
  for (const auto& [left, right] : merges) {
    vocabulary.merges.push_back(ToByteAlphabet(left) + " " + ToByteAlphabet(right));
    AddToken(vocabulary, ToByteAlphabet(left + right), text::TokenKind::kNormal);
  }
  return vocabulary;
}

// The id of a single byte in it.
inline TokenId ByteToken(char byte) { return 5 + static_cast<unsigned char>(byte); }

}  // namespace qanat::fakes
