// A05: SentencePiece drops at most one blank, at the start of a text and only where it put one there; the
// pieces of single bytes join to characters.
#include "common/text/detokenizer.h"
#include "common/text/utf8.h"
#include "gtest/gtest.h"
#include "tests/fakes/sentence_piece_vocabulary.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat {
namespace {

using Ids = std::vector<TokenId>;

constexpr TokenId kBlank = fakes::kFirstPiece;
constexpr TokenId kHello = fakes::kFirstPiece + 1;
constexpr TokenId kLeading = fakes::kFirstPiece + 2;

std::unique_ptr<text::Tokenizer> Tokenizer(bool add_space_prefix) {
  auto tokenizer = text::Tokenizer::Create(
      fakes::SentencePieceVocabulary({"\u2581", "\u2581Hello", "\u2581leading"}, add_space_prefix));
  QANAT_CHECK(tokenizer.ok()) << tokenizer.status().ToString();
  return *std::move(tokenizer);
}

std::string Stream(const text::Tokenizer& tokenizer, const Ids& ids) {
  text::Detokenizer detokenizer(tokenizer);
  std::string streamed;
  for (const TokenId id : ids) {
    const std::string piece = detokenizer.Append(id);
    EXPECT_TRUE(text::IsValidUtf8(piece));
    streamed += piece;
  }
  return streamed + detokenizer.Flush();
}

void ExpectText(const text::Tokenizer& tokenizer, const Ids& ids, std::string_view text) {
  EXPECT_EQ(tokenizer.Decode(ids), text);
  EXPECT_EQ(Stream(tokenizer, ids), text);
}

TEST(A05SentencePieceTest, DropsOneBlankWhereEncodingPutOne) {
  const auto tokenizer = Tokenizer(true);
  ExpectText(*tokenizer, {kHello}, "Hello");
  ExpectText(*tokenizer, {kBlank, kLeading}, " leading");
  ExpectText(*tokenizer, {kBlank, kBlank, kHello, kHello}, "  Hello Hello");
  ExpectText(*tokenizer, {tokenizer->bos(), kHello}, "Hello");
}

TEST(A05SentencePieceTest, DropsNoneWhereEncodingPutNone) {
  const auto tokenizer = Tokenizer(false);
  ExpectText(*tokenizer, {kHello}, " Hello");
  ExpectText(*tokenizer, {kBlank, kLeading}, "  leading");
}

TEST(A05SentencePieceTest, BytePiecesJoinToOneCharacter) {
  for (const bool prefix : {false, true}) {
    const auto tokenizer = Tokenizer(prefix);
    const Ids bytes = {fakes::BytePiece('\xEA'), fakes::BytePiece('\xB9'), fakes::BytePiece('\xB0')};
    ExpectText(*tokenizer, bytes, "\uAE70");
    text::Detokenizer detokenizer(*tokenizer);
    EXPECT_EQ(detokenizer.Append(bytes[0]), "");
    EXPECT_EQ(detokenizer.Append(bytes[1]), "");
    EXPECT_EQ(detokenizer.Append(bytes[2]), "\uAE70");
    EXPECT_EQ(detokenizer.Flush(), "");
    ExpectText(*tokenizer, {bytes[0], bytes[1], kHello}, std::string(text::kReplacement) + " Hello");
  }
}

TEST(A05SentencePieceTest, StreamEqualsTheWholeForEveryGoldenText) {
  const auto tokenizer = golden::LoadTokenizer(golden::GoldenPath("tiny/gemma3.gguf"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  for (const golden::TextAndIds& c :
       golden::ReadTextsAndIds(golden::GoldenPath("tiny/tokenizer_spm.jsonl"))) {
    ExpectText(**tokenizer, c.ids, c.text);
  }
}

}  // namespace
}  // namespace qanat
