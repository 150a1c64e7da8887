#include "common/text/detokenizer.h"

#include <random>

#include "common/text/stop_matcher.h"
#include "common/text/utf8.h"
#include "gtest/gtest.h"
#include "tests/fakes/byte_level_vocabulary.h"
#include "tests/fakes/sentence_piece_vocabulary.h"

namespace qanat::text {
namespace {

using fakes::ByteToken;

const std::string kFffd(kReplacement);

class DetokenizerTest : public testing::Test {
 protected:
  DetokenizerTest()
      : tokenizer_(*Tokenizer::Create(fakes::ByteLevelVocabulary({{" ", "a"},
                                                                  {"\xF0", "\x9F"},
                                                                  {"\xA5", "b"},
                                                                  {"\x94", "\xA5"},
                                                                  {"a", "\xE6"},
                                                                  {"\xF0\x9F", "\x94\xA5"}}))),
        detokenizer_(*tokenizer_) {}

  std::string AppendBytes(std::string_view bytes) {
    std::string out;
    for (const char byte : bytes) out += detokenizer_.Append(ByteToken(byte));
    return out;
  }

  const std::unique_ptr<Tokenizer> tokenizer_;
  Detokenizer detokenizer_;
};

TEST_F(DetokenizerTest, CharacterComesWithTheTokenThatCompletesIt) {
  for (const char byte : {'\xF0', '\x9F', '\x94'}) EXPECT_EQ(detokenizer_.Append(ByteToken(byte)), "");
  EXPECT_EQ(detokenizer_.held_bytes(), 3);
  EXPECT_EQ(detokenizer_.Append(ByteToken('\xA5')), "\xF0\x9F\x94\xA5");
  EXPECT_EQ(detokenizer_.held_bytes(), 0);
  EXPECT_EQ(detokenizer_.Flush(), "");
}

TEST_F(DetokenizerTest, WhatNeverCompletesIsOneReplacementAtTheEnd) {
  EXPECT_EQ(AppendBytes("a\xF0\x9F\x94"), "a");
  EXPECT_EQ(detokenizer_.Flush(), kFffd);
  EXPECT_EQ(detokenizer_.Flush(), "");
}

TEST_F(DetokenizerTest, BrokenBytesInTheMiddleAreReplacedAsSoonAsItIsCertain) {
  EXPECT_EQ(AppendBytes("\xF0\x9F"), "");
  EXPECT_EQ(detokenizer_.Append(ByteToken('a')), kFffd + "a");
  EXPECT_EQ(detokenizer_.Append(ByteToken('\x94')), kFffd);  // continues nothing
  EXPECT_EQ(AppendBytes("\xE6\xF0\x9F\x94\xA5"), kFffd + "\xF0\x9F\x94\xA5");
}

TEST_F(DetokenizerTest, ControlTokensAreSilentAndDoNotPartCharacters) {
  EXPECT_EQ(AppendBytes("\xF0\x9F"), "");
  EXPECT_EQ(detokenizer_.Append(1), "");
  EXPECT_EQ(AppendBytes("\x94\xA5"), "\xF0\x9F\x94\xA5");
  EXPECT_EQ(tokenizer_->Decode({ByteToken('\xE6'), 2, ByteToken('\xB0'), ByteToken('\xB4')}), "\u6C34");
}

// The leading blank is the model's own (A05).
TEST_F(DetokenizerTest, LeadingBlankStays) {
  EXPECT_EQ(detokenizer_.Append(tokenizer_->Encode(" a")[0]), " a");
  EXPECT_EQ(tokenizer_->Decode(tokenizer_->Encode(" a")), " a");
}

TEST_F(DetokenizerTest, RandomStreamsAreValidInEveryPieceAndEqualTheWhole) {
  std::mt19937 random(12);
  const std::string likely = "ab\xF0\x9F\x94\xA5\xE6\xB0\xB4\xC3";
  for (int round = 0; round < 20000; ++round) {
    std::vector<TokenId> ids(random() % 12);
    for (TokenId& id : ids) {
      id = random() % 3 == 0 ? static_cast<TokenId>(random() % static_cast<uint32_t>(tokenizer_->size()))
                             : ByteToken(likely[random() % likely.size()]);
    }
    std::string streamed;
    for (const TokenId id : ids) {
      const std::string piece = detokenizer_.Append(id);
      ASSERT_TRUE(IsValidUtf8(piece));
      streamed += piece;
    }
    streamed += detokenizer_.Flush();
    ASSERT_EQ(streamed, tokenizer_->Decode(ids));
  }
}

std::string Stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Detokenizer detokenizer(tokenizer);
  std::string streamed;
  for (const TokenId id : ids) streamed += detokenizer.Append(id);
  return streamed + detokenizer.Flush();
}

TEST(SentencePieceDetokenizerTest, DropsOneBlankOfEachAnswerAndNoMore) {
  const auto tokenizer = *Tokenizer::Create(fakes::SentencePieceVocabulary({"\u2581", "\u2581a"}, true));
  const TokenId blank = fakes::kFirstPiece;
  const TokenId word = fakes::kFirstPiece + 1;
  Detokenizer detokenizer(*tokenizer);
  for (int answer = 0; answer < 2; ++answer) {
    EXPECT_EQ(detokenizer.Append(2), "");  // a control token is not the start
    EXPECT_EQ(detokenizer.Append(word), "a");
    EXPECT_EQ(detokenizer.Append(word), " a");
    EXPECT_EQ(detokenizer.Flush(), "");
  }
  EXPECT_EQ(Stream(*tokenizer, {blank, word}), " a");
  EXPECT_EQ(Stream(*tokenizer, {fakes::BytePiece('b'), word}), "b a");
}

TEST(SentencePieceDetokenizerTest, RandomStreamsEqualTheWhole) {
  std::mt19937 random(17);
  for (const bool prefix : {false, true}) {
    const auto tokenizer =
        *Tokenizer::Create(fakes::SentencePieceVocabulary({"\u2581", "\u2581a", "\u6C34", "b"}, prefix));
    for (int round = 0; round < 5000; ++round) {
      std::vector<TokenId> ids(random() % 12);
      for (TokenId& id : ids) {
        id = random() % 2 == 0 ? static_cast<TokenId>(random() % static_cast<uint32_t>(tokenizer->size()))
                               : fakes::kFirstPiece + static_cast<TokenId>(random() % 4);
      }
      ASSERT_EQ(Stream(*tokenizer, ids), tokenizer->Decode(ids));
    }
  }
}

// What the caller sees must not depend on how tokens cut the text (A08, A09).
TEST_F(DetokenizerTest, StopsInAStreamAgreeWithStopsInTheWhole) {
  std::mt19937 random(13);
  const std::string fire = "\xF0\x9F\x94\xA5";
  const std::vector<std::string> stops = {fire + "b", "a" + fire + fire, "bab", kFffd + "a"};
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (size_t i = random() % 10; i > 0; --i)
      text += std::vector<std::string>{"a", "b", fire, " a", "\xF0\x9F"}[random() % 5];
    const std::vector<TokenId> ids = tokenizer_->Encode(text);
    StopMatcher streaming(stops);
    std::string streamed;
    for (const TokenId id : ids) streamed += streaming.Feed(detokenizer_.Append(id)).text;
    streamed += streaming.Feed(detokenizer_.Flush()).text;
    streamed += streaming.Flush();
    StopMatcher whole(stops);
    std::string expected = whole.Feed(tokenizer_->Decode(ids)).text;
    expected += whole.Flush();
    ASSERT_EQ(streamed, expected);
    ASSERT_EQ(streaming.matched(), whole.matched());
  }
}

}  // namespace
}  // namespace qanat::text
