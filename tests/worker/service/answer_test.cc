#include "worker/service/answer.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/text/utf8.h"
#include "gtest/gtest.h"
#include "tests/fakes/byte_level_vocabulary.h"

namespace qanat::service {
namespace {

class AnswerTest : public ::testing::Test {
 protected:
  AnswerTest()
      : tokenizer_(*text::Tokenizer::Create(fakes::ByteLevelVocabulary({{"D", "E"}, {"DE", "F"}}))) {}

  std::vector<TokenId> Bytes(std::string_view text) const {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(fakes::ByteToken(c));
    return ids;
  }
  TokenId Merged(std::string_view text) const { return tokenizer_->Encode(text).at(0); }

  std::unique_ptr<text::Tokenizer> tokenizer_;
};

TEST_F(AnswerTest, GivesTextAndPositionsWithoutGapOrRepeat) {
  Answer answer(*tokenizer_, {}, true);
  EXPECT_FALSE(answer.HasNews());
  for (const TokenId id : Bytes("abc")) answer.Append(id);
  const v1::GenerateResponse first = answer.Take();
  EXPECT_EQ(first.first_token(), 0);
  EXPECT_EQ(first.text(), "abc");
  EXPECT_EQ(first.token_ids_size(), 3);
  EXPECT_FALSE(answer.HasNews());
  answer.Append(Bytes("d")[0]);
  const v1::GenerateResponse second = answer.Take();
  EXPECT_EQ(second.first_token(), 3);
  EXPECT_EQ(second.text(), "d");
  EXPECT_EQ(answer.num_tokens(), 4);
}

TEST_F(AnswerTest, WithoutIdsACharacterInPiecesIsOneMessageOverAllItsTokens) {
  Answer answer(*tokenizer_, {}, false);
  const auto ids = Bytes("\xF0\x9F\x94\xA5");
  for (int i = 0; i < 3; ++i) {
    answer.Append(ids[i]);
    EXPECT_FALSE(answer.HasNews());
  }
  answer.Append(ids[3]);
  const v1::GenerateResponse message = answer.Take();
  EXPECT_EQ(message.text(), "\xF0\x9F\x94\xA5");
  EXPECT_EQ(message.first_token(), 0);
  EXPECT_EQ(message.token_ids_size(), 0);
}

TEST_F(AnswerTest, IdsGoAtOnceWhileTextWaitsForAStop) {
  Answer answer(*tokenizer_, {"xyz"}, true);
  answer.Append(fakes::ByteToken('x'));
  ASSERT_TRUE(answer.HasNews());
  const v1::GenerateResponse first = answer.Take();
  EXPECT_EQ(first.text(), "");
  EXPECT_EQ(first.token_ids_size(), 1);
  answer.Append(fakes::ByteToken('!'));
  const v1::GenerateResponse second = answer.Take();
  EXPECT_EQ(second.text(), "x!");
  EXPECT_EQ(second.first_token(), 1);
}

TEST_F(AnswerTest, StopInsideATokenCutsItsTextAndCountsTheToken) {
  Answer answer(*tokenizer_, {"E"}, true);
  for (const TokenId id : Bytes("ABC")) answer.Append(id);
  answer.Append(Merged("DEF"));
  ASSERT_EQ(answer.stop(), 0);
  answer.Append(fakes::ByteToken('G'));
  answer.Finish();
  const v1::GenerateResponse message = answer.Take();
  EXPECT_EQ(message.text(), "ABCD");
  EXPECT_EQ(message.token_ids_size(), 4);
  EXPECT_EQ(answer.num_tokens(), 4);
}

TEST_F(AnswerTest, WhatWasHeldBackComesAtTheEnd) {
  Answer answer(*tokenizer_, {"DEFGHIJ"}, false);
  for (const TokenId id : Bytes("ABCDEFGHI")) answer.Append(id);
  EXPECT_EQ(answer.Take().text(), "ABC");
  answer.Finish();
  const v1::GenerateResponse last = answer.Take();
  EXPECT_EQ(last.text(), "DEFGHI");
  EXPECT_EQ(last.first_token(), 9);
  EXPECT_FALSE(answer.stop().has_value());
}

TEST_F(AnswerTest, ABrokenCharacterAtTheEndIsOneReplacement) {
  Answer answer(*tokenizer_, {}, false);
  for (const TokenId id : Bytes("a\xF0\x9F\x94")) answer.Append(id);
  answer.Finish();
  EXPECT_EQ(answer.Take().text(), "a\xEF\xBF\xBD");
}

TEST_F(AnswerTest, AStopMayTurnUpInTheReplacementAtTheEnd) {
  Answer answer(*tokenizer_, {"a\xEF\xBF\xBD"}, false);
  for (const TokenId id : Bytes("xa\xF0\x9F")) answer.Append(id);
  answer.Finish();
  EXPECT_EQ(answer.stop(), 0);
  EXPECT_EQ(answer.Take().text(), "x");
}

TEST_F(AnswerTest, ControlTokensCountAndAreNoText) {
  Answer answer(*tokenizer_, {}, true);
  answer.Append(fakes::ByteToken('a'));
  answer.Append(tokenizer_->eos());
  answer.Finish();
  const v1::GenerateResponse message = answer.Take();
  EXPECT_EQ(message.text(), "a");
  EXPECT_EQ(message.token_ids_size(), 2);
  EXPECT_EQ(answer.num_tokens(), 2);
}

// --- Random answers against the whole text, matched at once
// ----------------------------------------------------

struct Expected {
  std::string text;
  int32_t num_tokens = 0;
  bool stopped = false;
};

// The naive way: decode every prefix as a whole and look for the first one that holds a stop. A partial
// character at the end of a prefix is not text yet.
Expected Naive(const text::Tokenizer& tokenizer, const std::vector<TokenId>& ids,
               const std::vector<std::string>& stops) {
  std::string raw;
  for (size_t n = 0; n <= ids.size(); ++n) {
    if (n > 0) raw += std::string(tokenizer.Bytes(ids[n - 1]));
    std::string text;
    const size_t partial = text::AppendCharacters(raw, text);
    if (n == ids.size() && partial > 0) text += text::kReplacement;
    // The stop that ends first, the longest of those.
    size_t end = std::string::npos;
    size_t begin = std::string::npos;
    for (const std::string& stop : stops) {
      const size_t at = text.find(stop);
      if (at == std::string::npos) continue;
      const size_t stop_end = at + stop.size();
      if (stop_end < end || (stop_end == end && at < begin)) end = stop_end, begin = at;
    }
    if (end != std::string::npos) return {text.substr(0, begin), static_cast<int32_t>(n), true};
    if (n == ids.size()) return {text, static_cast<int32_t>(n), false};
  }
  return {};
}

TEST_F(AnswerTest, RandomAnswersEqualTheWholeTextMatchedAtOnce) {
  std::mt19937 random(7);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const std::string alphabet = "ab\xF0\x9F\x94\xA5\xC3\xA9";
  for (int round = 0; round < 3000; ++round) {
    std::vector<TokenId> ids;
    for (int i = pick(24); i > 0; --i) {
      ids.push_back(pick(9) == 0 ? Merged("DEF")
                                 : fakes::ByteToken(alphabet[pick(static_cast<int>(alphabet.size()))]));
    }
    std::vector<std::string> stops;
    for (int i = pick(3); i > 0; --i) {
      static const std::vector<std::string> kPieces = {"a", "b",  "\xC3\xA9",    "\xF0\x9F\x94\xA5",
                                                       "D", "EF", "\xEF\xBF\xBD"};
      std::string stop;
      for (int j = 1 + pick(3); j > 0; --j) stop += kPieces[pick(static_cast<int>(kPieces.size()))];
      stops.push_back(stop);
    }
    const bool with_ids = pick(2) == 0;
    Answer answer(*tokenizer_, stops, with_ids);
    std::string text;
    int32_t covered = 0;
    std::vector<TokenId> taken;
    const auto take = [&] {
      const v1::GenerateResponse message = answer.Take();
      EXPECT_EQ(message.first_token(), covered);
      EXPECT_TRUE(text::IsValidUtf8(message.text()));
      covered = answer.num_tokens();
      text += message.text();
      taken.insert(taken.end(), message.token_ids().begin(), message.token_ids().end());
    };
    for (const TokenId id : ids) {
      answer.Append(id);
      if (answer.HasNews() && pick(2) == 0) take();
    }
    answer.Finish();
    take();
    const Expected expected = Naive(*tokenizer_, ids, stops);
    ASSERT_EQ(text, expected.text) << "round " << round;
    ASSERT_EQ(answer.stop().has_value(), expected.stopped) << "round " << round;
    ASSERT_EQ(answer.num_tokens(), expected.num_tokens) << "round " << round;
    if (with_ids) {
      ASSERT_EQ(taken, std::vector<TokenId>(ids.begin(), ids.begin() + expected.num_tokens));
    }
  }
}

}  // namespace
}  // namespace qanat::service
