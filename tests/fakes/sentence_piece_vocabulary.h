// Small SentencePiece vocabularies for tests, built instead of read.
#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "common/text/vocabulary.h"

namespace qanat::fakes {

inline constexpr TokenId kFirstByte = 8;
inline constexpr TokenId kFirstPiece = kFirstByte + 256;

// In this order: <pad>, <eos>, <bos>, <turn> (control), <unk> (unknown), the line end, two blanks and <tool>
// (user-defined), the 256 bytes, the pieces, best first. `pieces` write a blank as U+2581, as files do.
inline text::Vocabulary SentencePieceVocabulary(const std::vector<std::string>& pieces,
                                                bool add_space_prefix = false) {
  text::Vocabulary vocabulary;
  vocabulary.model = "llama";
  vocabulary.pre = "default";
  const auto add = [&](std::string token, text::TokenKind kind, float score) {
    vocabulary.tokens.push_back(std::move(token));
    vocabulary.kinds.push_back(kind);
    vocabulary.scores.push_back(score);
  };
  for (const char* token : {"<pad>", "<eos>", "<bos>", "<turn>"})
    add(token, text::TokenKind::kControl, -1000);
  add("<unk>", text::TokenKind::kUnknown, -1000);
  for (const char* token : {"\n", "  ", "<tool>"}) add(token, text::TokenKind::kUserDefined, -1000);
  for (int byte = 0; byte < 256; ++byte) {
    char token[8];
    std::snprintf(token, sizeof(token), "<0x%02X>", static_cast<unsigned>(byte));
    add(token, text::TokenKind::kByte, 0);
  }
  for (const std::string& piece : pieces) {
    add(piece, text::TokenKind::kNormal, -static_cast<float>(vocabulary.tokens.size()));
  }
  vocabulary.pad = 0;
  vocabulary.eos = 1;
  vocabulary.bos = 2;
  vocabulary.unk = 4;
  vocabulary.eog = {1};
  vocabulary.add_bos = true;
  vocabulary.add_space_prefix = add_space_prefix;
  return vocabulary;
}

// The id of a byte's own token in it.
inline TokenId BytePiece(char byte) { return kFirstByte + static_cast<unsigned char>(byte); }

}  // namespace qanat::fakes
