#include "common/text/special_tokens.h"

#include <random>
#include <string>

#include "gtest/gtest.h"

namespace qanat::text {
namespace {

bool operator==(const SpecialTokens::Match& a, const SpecialTokens::Match& b) {
  return a.begin == b.begin && a.end == b.end && a.id == b.id;
}

Vocabulary Of(const std::vector<std::pair<std::string, TokenKind>>& tokens) {
  Vocabulary vocabulary;
  for (const auto& [token, kind] : tokens) {
    vocabulary.tokens.push_back(token);
    vocabulary.kinds.push_back(kind);
  }
  return vocabulary;
}

// Every token tried at every place.
std::optional<SpecialTokens::Match> NaiveFind(const Vocabulary& vocabulary, std::string_view text,
                                              size_t from, size_t to, size_t reserved_end) {
  for (size_t begin = from; begin < to; ++begin) {
    std::optional<SpecialTokens::Match> best;
    for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
      const std::string& token = vocabulary.tokens[i];
      const size_t end = begin + token.size();
      const bool reserved = IsReserved(vocabulary.kinds[i]);
      if (token.empty() || (!reserved && vocabulary.kinds[i] != TokenKind::kUserDefined)) continue;
      if (text.substr(begin, token.size()) != token || (reserved && end > reserved_end)) continue;
      if (!best || end > best->end) best = SpecialTokens::Match{begin, end, static_cast<TokenId>(i)};
    }
    if (best) return best;
  }
  return std::nullopt;
}

TEST(SpecialTokensTest, LeftmostThenLongest) {
  const SpecialTokens special(Of({{"ab", TokenKind::kUserDefined},
                                  {"abc", TokenKind::kUserDefined},
                                  {"bcdefgh", TokenKind::kUserDefined}}));
  const auto match = special.Find("xxabcdefgh", 0, 10, 0);
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->begin, 2u);
  EXPECT_EQ(match->end, 5u);
  EXPECT_EQ(match->id, 1);
}

TEST(SpecialTokensTest, ReservedOnesOnlyWhereTheyMayBe) {
  const SpecialTokens special(Of({{"<s>", TokenKind::kControl}, {"<unk>", TokenKind::kUnknown}}));
  EXPECT_FALSE(special.Find("<s><unk>", 0, 8, 0).has_value());
  EXPECT_FALSE(special.Find("<s><unk>", 0, 8, 2).has_value());
  EXPECT_EQ(special.Find("<s><unk>", 0, 8, 3)->id, 0);
  EXPECT_EQ(special.Find("<s><unk>", 1, 8, 8)->id, 1);
}

TEST(SpecialTokensTest, OtherKindsAreNotSpecial) {
  const SpecialTokens special(
      Of({{"a", TokenKind::kNormal}, {"b", TokenKind::kUnused}, {"", TokenKind::kUserDefined}}));
  EXPECT_FALSE(special.Find("ab", 0, 2, 2).has_value());
}

TEST(SpecialTokensTest, RandomTokensAgreeWithTheNaiveSearch) {
  std::mt19937 random(6);
  const auto random_text = [&](size_t most) {
    std::string text(random() % (most + 1), '\0');
    for (char& c : text) c = static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 5000; ++round) {
    Vocabulary vocabulary;
    for (size_t count = random() % 6; vocabulary.tokens.size() < count;) {
      const std::string token = random_text(5);
      auto& tokens = vocabulary.tokens;
      if (std::find(tokens.begin(), tokens.end(), token) != tokens.end()) continue;
      tokens.push_back(token);
      vocabulary.kinds.push_back(static_cast<TokenKind>(random() % 5));
    }
    const SpecialTokens special(vocabulary);
    const std::string text = random_text(20);
    const size_t from = random() % (text.size() + 1);
    const size_t to = from + random() % (text.size() + 1 - from);
    const size_t reserved_end = random() % (text.size() + 1);
    const auto found = special.Find(text, from, to, reserved_end);
    const auto expected = NaiveFind(vocabulary, text, from, to, reserved_end);
    ASSERT_EQ(found.has_value(), expected.has_value()) << text;
    if (found.has_value()) {
      ASSERT_TRUE(*found == *expected) << text;
    }
  }
}

}  // namespace
}  // namespace qanat::text
