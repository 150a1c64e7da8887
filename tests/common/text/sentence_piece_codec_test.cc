// Tokenizers of the model "llama".
#include "common/text/sentence_piece_codec.h"

#include <functional>
#include <limits>
#include <random>

#include "absl/strings/str_replace.h"
#include "common/base/error.h"
#include "common/text/detokenizer.h"
#include "common/text/tokenizer.h"
#include "common/text/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/sentence_piece_vocabulary.h"

namespace qanat::text {
namespace {

using fakes::BytePiece;
using fakes::SentencePieceVocabulary;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Texts = std::vector<std::string>;

const std::vector<std::string> kPieces = {"\u2581a", "\u2581b", "ab",     "\u2581ab", "os", "os>",
                                          "<b",      "<bos",    "\u2581", "a",        "b",  "<",
                                          ">",       "o",       "s",      "\u6C34"};

std::unique_ptr<Tokenizer> Make(Vocabulary vocabulary) {
  auto tokenizer = Tokenizer::Create(std::move(vocabulary));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::unique_ptr<Tokenizer> Make(bool add_space_prefix = false) {
  return Make(SentencePieceVocabulary(kPieces, add_space_prefix));
}

Texts Encode(const Tokenizer& tokenizer, std::string_view text) {
  Texts texts;
  for (const TokenId id : tokenizer.Encode(text)) texts.emplace_back(tokenizer.TokenText(id));
  return texts;
}

TEST(SentencePieceCodecTest, MergesByScoreAcrossBlanks) {
  const auto tokenizer = Make();
  EXPECT_THAT(Encode(*tokenizer, "ab ab"), ElementsAre("ab", "\u2581ab"));
  EXPECT_THAT(Encode(*tokenizer, "a b"), ElementsAre("a", "\u2581b"));
  EXPECT_THAT(Encode(*tokenizer, "a \u6C34"), ElementsAre("a", "\u2581", "\u6C34"));
  EXPECT_THAT(Encode(*tokenizer, ""), IsEmpty());
}

TEST(SentencePieceCodecTest, WhatIsNoPieceBecomesBytes) {
  const auto tokenizer = Make();
  EXPECT_THAT(Encode(*tokenizer, "a\u6C35b"), ElementsAre("a", "<0xE6>", "<0xB0>", "<0xB5>", "b"));
  EXPECT_THAT(Encode(*tokenizer, "a\xE6\xB0 b"), ElementsAre("a", "<0xE6>", "<0xB0>", "\u2581b"));
}

TEST(SentencePieceCodecTest, BrokenBytesAreNoPieceAndPartTheirNeighbours) {
  Vocabulary vocabulary = SentencePieceVocabulary({"a", "b", "a\xFF",
                                                   "\xFF"
                                                   "b",
                                                   "\xFF"});
  EXPECT_THAT(Encode(*Make(vocabulary),
                     "a\xFF"
                     "b"),
              ElementsAre("a", "<0xFF>", "b"));
}

TEST(SentencePieceCodecTest, UserDefinedTokensAreWrittenWithRealBlanks) {
  const auto tokenizer = Make();
  EXPECT_THAT(Encode(*tokenizer, "a  b\n\n<tool>"), ElementsAre("a", "  ", "b", "\n", "\n", "<tool>"));
  EXPECT_THAT(Encode(*tokenizer, "a   b"), ElementsAre("a", "  ", "\u2581b"));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("a   b\n<tool>")), "a   b\n<tool>");
}

// As SentencePiece has it: the two are one.
TEST(SentencePieceCodecTest, WrittenBlankInATextIsABlank) {
  const auto tokenizer = Make();
  EXPECT_EQ(tokenizer->Encode("a\u2581b"), tokenizer->Encode("a b"));
  EXPECT_THAT(Encode(*tokenizer, "\u2581\u2581"), ElementsAre("\u2581", "\u2581"));
}

TEST(SentencePieceCodecTest, OnlyNormalPiecesAndBytesComeOut) {
  // <b and os> lead to <bos>, b and b to an unused piece.
  Vocabulary vocabulary = SentencePieceVocabulary(kPieces);
  vocabulary.tokens.push_back("bb");
  vocabulary.kinds.push_back(TokenKind::kUnused);
  vocabulary.scores.push_back(0);
  const auto tokenizer = Make(vocabulary);
  EXPECT_THAT(Encode(*tokenizer, "<bos>"), ElementsAre("<b", "os>"));
  EXPECT_THAT(Encode(*tokenizer, "bb"), ElementsAre("b", "b"));
  EXPECT_THAT(Encode(*tokenizer, "<0x41>"), testing::Not(testing::Contains("<0x41>")));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("<0x41><unk>bb")), "<0x41><unk>bb");
}

TEST(SentencePieceCodecTest, PieceWithARealBlankStandsForNoText) {
  const auto tokenizer = Make(SentencePieceVocabulary({"\u2581", "a", " a"}));
  EXPECT_THAT(Encode(*tokenizer, " a"), ElementsAre("\u2581", "a"));
}

TEST(SentencePieceCodecTest, ByteWithoutATokenEncodesToNothing) {
  Vocabulary vocabulary = SentencePieceVocabulary(kPieces);
  vocabulary.kinds[static_cast<size_t>(BytePiece('x'))] = TokenKind::kUnused;
  EXPECT_THAT(Encode(*Make(vocabulary), "axb"), ElementsAre("a", "b"));
}

TEST(SentencePieceCodecTest, BytesOfEachKind) {
  const auto tokenizer = Make();
  EXPECT_EQ(tokenizer->Bytes(2), "");
  EXPECT_EQ(tokenizer->Bytes(4), "");
  EXPECT_EQ(tokenizer->Bytes(6), "  ");
  EXPECT_EQ(tokenizer->Bytes(BytePiece('\0')), std::string_view("\0", 1));
  EXPECT_EQ(tokenizer->Bytes(BytePiece('\xAB')), "\xAB");
  EXPECT_EQ(tokenizer->Bytes(fakes::kFirstPiece), " a");
}

TEST(SentencePieceCodecTest, ControlTokensOnlyInWhatTheTemplateWrote) {
  const auto tokenizer = Make();
  EXPECT_THAT(tokenizer->EncodeSpans({{"<bos>", true}, {"\n", false}}), ElementsAre(2, 5));
  EXPECT_EQ(tokenizer->EncodeSpans({{"<bos>", false}}), tokenizer->Encode("<bos>"));
}

TEST(SpacePrefixTest, StandsBeforeEachTextAndBehindSpecialTokens) {
  const auto tokenizer = Make(true);
  EXPECT_THAT(Encode(*tokenizer, "a"), ElementsAre("\u2581a"));
  EXPECT_THAT(Encode(*tokenizer, "a b"), ElementsAre("\u2581a", "\u2581b"));
  EXPECT_THAT(Encode(*tokenizer, "a<tool>b"), ElementsAre("\u2581a", "<tool>", "\u2581b"));
  EXPECT_THAT(Encode(*tokenizer, "<tool>"), ElementsAre("<tool>"));
  EXPECT_THAT(Encode(*tokenizer, ""), IsEmpty());
  EXPECT_THAT(Encode(*tokenizer, " a"), ElementsAre("\u2581", "\u2581a"));
}

TEST(SpacePrefixTest, DecodingTakesExactlyOneAway) {
  const auto tokenizer = Make(true);
  EXPECT_TRUE(tokenizer->drops_first_blank());
  for (const char* text : {"a", " a", "   a", "a b", "ab", "\u6C34", ""}) {
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text)), text);
  }
  EXPECT_FALSE(Make(false)->drops_first_blank());
}

// With a token for every byte nothing is lost, valid or not.
TEST(SentencePieceCodecTest, RandomBytesComeBackAsTheyWere) {
  std::mt19937 random(16);
  for (const bool prefix : {false, true}) {
    const auto tokenizer = Make(prefix);
    for (int round = 0; round < 5000; ++round) {
      std::string text(random() % 40, '\0');
      for (char& c : text) {
        c = static_cast<char>(random() % 2 == 0 ? random()
                                                : "ab \xE6\xB0\xB4<bos>\xE2\x96\x81"[random() % 15]);
        // A user-defined token parts the text, and a prefix behind it stays.
        if (prefix && c == '\n') c = 'a';
      }
      if (prefix) text = absl::StrReplaceAll(text, {{"  ", "a"}});
      const std::string expected = ReplaceInvalid(absl::StrReplaceAll(text, {{"\u2581", " "}}));
      ASSERT_EQ(tokenizer->Decode(tokenizer->Encode(text)), expected);
    }
  }
}

absl::Status StatusAfter(const std::function<void(Vocabulary&)>& change) {
  Vocabulary vocabulary = SentencePieceVocabulary(kPieces);
  change(vocabulary);
  return Tokenizer::Create(std::move(vocabulary)).status();
}

void ExpectInvalid(const absl::Status& status, std::string_view key, const std::string& reason) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(FieldOf(status), key);
  EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
}

TEST(SentencePieceVocabularyTest, OneScoreATokenAndEachANumber) {
  constexpr std::string_view kKey = "tokenizer.ggml.scores";
  ExpectInvalid(StatusAfter([](Vocabulary& v) { v.scores.pop_back(); }), kKey, "279 scores for 280 tokens");
  ExpectInvalid(StatusAfter([](Vocabulary& v) { v.scores.clear(); }), kKey, "0 scores");
  ExpectInvalid(StatusAfter([](Vocabulary& v) { v.scores[7] = std::numeric_limits<float>::quiet_NaN(); }),
                kKey, "token 7 is not a number");
  EXPECT_TRUE(StatusAfter([](Vocabulary& v) {
                v.scores[270] = std::numeric_limits<float>::infinity();
                v.scores[271] = -std::numeric_limits<float>::infinity();
              }).ok());
}

TEST(SentencePieceVocabularyTest, BytesAreWrittenAsBytes) {
  for (const char* token : {"<0x0a>", "<0x0>", "<0x0G>", "0x0A00", "\n\n\n", "<0x0A> "}) {
    ExpectInvalid(StatusAfter([&](Vocabulary& v) { v.tokens[static_cast<size_t>(BytePiece('\n'))] = token; }),
                  "tokenizer.ggml.tokens", "token 18 (\"");
  }
}

TEST(SentencePieceVocabularyTest, NeedsNoKnownPreTokenizer) {
  EXPECT_TRUE(StatusAfter([](Vocabulary& v) { v.pre = "viking"; }).ok());
}

}  // namespace
}  // namespace qanat::text
