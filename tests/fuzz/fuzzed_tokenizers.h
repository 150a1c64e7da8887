// The tokenizers that fuzzers try: one of each algorithm and each rule, small enough that every piece is met.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/text/tokenizer.h"
#include "tests/fakes/byte_level_vocabulary.h"
#include "tests/fakes/sentence_piece_vocabulary.h"

namespace qanat::fuzz {

struct FuzzedTokenizer {
  std::unique_ptr<text::Tokenizer> tokenizer;
  bool complete;  // every byte has a token
};

inline std::unique_ptr<text::Tokenizer> Make(text::Vocabulary vocabulary) {
  auto tokenizer = text::Tokenizer::Create(std::move(vocabulary));
  QANAT_CHECK(tokenizer.ok()) << tokenizer.status().ToString();
  return *std::move(tokenizer);
}

inline text::Vocabulary ByteLevel(std::string pre) {
  return fakes::ByteLevelVocabulary({{" ", "a"},
                                     {"a", "b"},
                                     {" ", " "},
                                     {" a", "b"},
                                     {"ab", "ab"},
                                     {"\n", "\n"},
                                     {"<", "|"},
                                     {"\xE6", "\xB0"},
                                     {"\xE6\xB0", "\xB4"},
                                     {"1", "2"},
                                     {"'", "s"}},
                                    std::move(pre));
}

inline text::Vocabulary SentencePiece(bool add_space_prefix) {
  return fakes::SentencePieceVocabulary({"\u2581a",  "ab",
                                         "\u2581ab", "\u2581\u2581\u2581",
                                         "<b",       "os",
                                         "os>",      "<bos",
                                         "abab",     "\u6C34\u6C34",
                                         "\u2581",   "a",
                                         "b",        "<",
                                         ">",        "o",
                                         "s",        "1",
                                         "\u6C34",   "\u00E9a"},
                                        add_space_prefix);
}

// Without a token for 'x' and for the last byte of the most common characters.
inline text::Vocabulary WithHoles(text::Vocabulary vocabulary, TokenId first_byte) {
  for (const unsigned char byte : {0x78, 0xB4}) {
    vocabulary.kinds[static_cast<size_t>(first_byte) + byte] = text::TokenKind::kUnused;
  }
  return vocabulary;
}

inline const std::vector<FuzzedTokenizer>& FuzzedTokenizers() {
  static const auto& tokenizers = *[] {
    auto* made = new std::vector<FuzzedTokenizer>;
    for (const char* pre : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
      made->push_back({Make(ByteLevel(pre)), true});
    }
    made->push_back({Make(WithHoles(ByteLevel("smollm"), fakes::ByteToken('\0'))), false});
    made->push_back({Make(SentencePiece(false)), true});
    made->push_back({Make(SentencePiece(true)), true});
    made->push_back({Make(WithHoles(SentencePiece(false), fakes::kFirstByte)), false});
    return made;
  }();
  return tokenizers;
}

}  // namespace qanat::fuzz
