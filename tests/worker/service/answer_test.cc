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

struct Expected {
  std::string text;
  int32_t num_tokens = 0;
  bool by_string = false;
  bool by_token = false;
};

// Where the first stop lies that ends behind the first `seen` bytes, the longest of those that end there.
std::optional<std::pair<size_t, size_t>> FindStop(const std::string& text, size_t seen,
                                                  const std::vector<std::string>& stops) {
  for (size_t end = seen + 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return std::pair(end - longest, end);
  }
  return std::nullopt;
}

// The naive way: decode every prefix as a whole and look for a stop that ends in what the last token added. A
// partial character at the end of a prefix is not text yet.
Expected Naive(const text::Tokenizer& tokenizer, const std::vector<TokenId>& ids,
               const AnswerOptions& options) {
  std::string raw;
  std::string before;
  for (size_t n = 1; n <= ids.size() + 1; ++n) {
    const bool at_end = n > ids.size();
    const auto count = static_cast<int32_t>(std::min(n, ids.size()));
    const auto& ends = options.stop_token_ids;
    const bool by_token = !at_end && std::find(ends.begin(), ends.end(), ids[n - 1]) != ends.end();
    if (!at_end && (!by_token || options.include_stop)) raw += std::string(tokenizer.Bytes(ids[n - 1]));
    std::string text;
    const size_t partial = text::AppendCharacters(raw, text);
    if ((at_end || by_token) && partial > 0) text += text::kReplacement;
    if (by_token) return {text, count, false, true};
    if (count >= options.min_tokens) {
      if (const auto stop = FindStop(text, before.size(), options.stops)) {
        return {text.substr(0, options.include_stop ? stop->second : stop->first), count, true, false};
      }
    }
    if (at_end) return {text, count, false, false};
    before = text;
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
    const Expected expected = Naive(*tokenizer_, ids, options);
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
