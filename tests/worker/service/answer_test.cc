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
#include "tests/worker/service/naive_answer.h"

namespace qanat::service {
namespace {

AnswerOptions Options(std::vector<std::string> stops, bool token_ids) {
  AnswerOptions options;
  options.stops = std::move(stops);
  options.token_ids = token_ids;
  return options;
}

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
  Answer answer(*tokenizer_, Options({}, true));
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
  Answer answer(*tokenizer_, Options({}, false));
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
  Answer answer(*tokenizer_, Options({"xyz"}, true));
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
  Answer answer(*tokenizer_, Options({"E"}, true));
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
  Answer answer(*tokenizer_, Options({"DEFGHIJ"}, false));
  for (const TokenId id : Bytes("ABCDEFGHI")) answer.Append(id);
  EXPECT_EQ(answer.Take().text(), "ABC");
  answer.Finish();
  const v1::GenerateResponse last = answer.Take();
  EXPECT_EQ(last.text(), "DEFGHI");
  EXPECT_EQ(last.first_token(), 9);
  EXPECT_FALSE(answer.stop().has_value());
}

TEST_F(AnswerTest, ABrokenCharacterAtTheEndIsOneReplacement) {
  Answer answer(*tokenizer_, Options({}, false));
  for (const TokenId id : Bytes("a\xF0\x9F\x94")) answer.Append(id);
  answer.Finish();
  EXPECT_EQ(answer.Take().text(), "a\xEF\xBF\xBD");
}

TEST_F(AnswerTest, AStopMayTurnUpInTheReplacementAtTheEnd) {
  Answer answer(*tokenizer_, Options({"a\xEF\xBF\xBD"}, false));
  for (const TokenId id : Bytes("xa\xF0\x9F")) answer.Append(id);
  answer.Finish();
  EXPECT_EQ(answer.stop(), 0);
  EXPECT_EQ(answer.Take().text(), "x");
}

TEST_F(AnswerTest, ControlTokensCountAndAreNoText) {
  Answer answer(*tokenizer_, Options({}, true));
  answer.Append(fakes::ByteToken('a'));
  answer.Append(tokenizer_->eos());
  answer.Finish();
  const v1::GenerateResponse message = answer.Take();
  EXPECT_EQ(message.text(), "a");
  EXPECT_EQ(message.token_ids_size(), 2);
  EXPECT_EQ(answer.num_tokens(), 2);
}

TEST_F(AnswerTest, AStopTokenEndsItWithoutItsText) {
  AnswerOptions options = Options({"zz"}, true);
  options.stop_token_ids = {fakes::ByteToken('x'), fakes::ByteToken('z')};
  for (const bool include : {false, true}) {
    options.include_stop = include;
    Answer answer(*tokenizer_, options);
    for (const TokenId id : Bytes("abzc")) answer.Append(id);
    answer.Finish();
    EXPECT_TRUE(answer.stopped());
    EXPECT_EQ(answer.stop_token(), fakes::ByteToken('z'));
    EXPECT_EQ(answer.stop(), std::nullopt);
    const v1::GenerateResponse message = answer.Take();
    EXPECT_EQ(message.text(), include ? "abz" : "ab");
    EXPECT_EQ(message.token_ids_size(), 3) << "it counts and is delivered";
    EXPECT_EQ(answer.num_tokens(), 3);
  }
}

TEST_F(AnswerTest, WhatAStopStringHeldBackComesBeforeTheStopToken) {
  AnswerOptions options = Options({"bzz"}, false);
  options.stop_token_ids = {fakes::ByteToken('z')};
  options.include_stop = true;
  Answer answer(*tokenizer_, options);
  for (const TokenId id : Bytes("ab")) answer.Append(id);
  EXPECT_EQ(answer.Take().text(), "a");
  answer.Append(fakes::ByteToken('z'));
  EXPECT_EQ(answer.Take().text(), "bz");
}

TEST_F(AnswerTest, IncludesTheStopStringAndNothingBehindIt) {
  AnswerOptions options = Options({"DE"}, true);
  options.include_stop = true;
  Answer answer(*tokenizer_, options);
  for (const TokenId id : Bytes("AB")) answer.Append(id);
  answer.Append(Merged("DEF"));
  EXPECT_EQ(answer.Take().text(), "ABDE");
  EXPECT_EQ(answer.stop(), 0);
}

TEST_F(AnswerTest, AStopStringThatEndsTooEarlyIsText) {
  AnswerOptions options = Options({"ab", "bca"}, false);
  options.min_tokens = 4;
  Answer answer(*tokenizer_, options);
  for (const TokenId id : Bytes("abcabc")) answer.Append(id);
  // "ab" ends at the second token and is text; "bca", which begins there, ends at the fourth.
  EXPECT_EQ(answer.stop(), 1);
  EXPECT_EQ(answer.Take().text(), "a");
  EXPECT_EQ(answer.num_tokens(), 4);
}

TEST_F(AnswerTest, ScoresGoAtOnceAndStopWhereTheAnswerDoes) {
  AnswerOptions options = Options({"xyz"}, false);
  options.logprobs = true;
  Answer answer(*tokenizer_, options);
  answer.AppendPrompt({{fakes::ByteToken('p'), -1}, {{fakes::ByteToken('q'), -0.5f}}});
  for (const char c : std::string("xyzw")) {
    const sampling::ScoredToken score = {{fakes::ByteToken(c), -2}, {}};
    answer.Append(fakes::ByteToken(c), &score);
    if (c == 'x') {
      const v1::GenerateResponse first = answer.Take();
      EXPECT_EQ(first.text(), "");
      ASSERT_EQ(first.logprobs_size(), 1);
      EXPECT_EQ(first.logprobs(0).token(), "x");
      ASSERT_EQ(first.prompt_logprobs_size(), 1);
      EXPECT_EQ(first.prompt_logprobs(0).alternatives(0).token(), "q");
      EXPECT_EQ(first.prompt_logprobs(0).alternatives(0).logprob(), -0.5f);
    }
  }
  EXPECT_EQ(answer.Take().logprobs_size(), 2) << "none behind the stop";
}

// --- Random answers against the whole text, matched at once
// ----------------------------------------------------

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
    AnswerOptions options = Options(stops, with_ids);
    options.min_tokens = pick(3) == 0 ? pick(12) : 0;
    options.include_stop = pick(4) == 0;
    if (pick(3) == 0) options.stop_token_ids = {fakes::ByteToken('b')};
    Answer answer(*tokenizer_, options);
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
    const NaiveAnswer expected = AnswerNaively(*tokenizer_, ids, options);
    ASSERT_EQ(text, expected.text) << "round " << round;
    ASSERT_EQ(answer.stop().has_value(), expected.by_string) << "round " << round;
    ASSERT_EQ(answer.stop_token().has_value(), expected.by_token) << "round " << round;
    ASSERT_EQ(answer.num_tokens(), expected.num_tokens) << "round " << round;
    if (with_ids) {
      ASSERT_EQ(taken, std::vector<TokenId>(ids.begin(), ids.begin() + expected.num_tokens));
    }
  }
}

}  // namespace
}  // namespace qanat::service
