#include "common/text/score_merger.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>

#include "common/text/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qanat::text {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Pieces = std::vector<ScoreMerger::Piece>;

// Byte b is the token 1000 + b; '?' has none.
std::array<TokenId, 256> Bytes() {
  std::array<TokenId, 256> ids;
  for (size_t byte = 0; byte < ids.size(); ++byte)
    ids[byte] = byte == '?' ? -1 : 1000 + static_cast<int>(byte);
  return ids;
}

const ScoreMerger::Piece* FindPiece(const Pieces& pieces, std::string_view text) {
  const auto found =
      std::find_if(pieces.begin(), pieces.end(), [&](const auto& p) { return p.text == text; });
  return found == pieces.end() ? nullptr : &*found;
}

// The definition: as long as two neighbours make a piece, join those that make the best, of equals the
// leftmost.
std::vector<TokenId> NaiveMerge(const Pieces& pieces, std::string_view text) {
  std::vector<std::string> symbols;
  while (!text.empty()) {
    const size_t length = NextUnit(text).length;
    symbols.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  while (true) {
    std::optional<size_t> best;
    float best_score = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const ScoreMerger::Piece* piece = FindPiece(pieces, symbols[i] + symbols[i + 1]);
      if (piece == nullptr || (best && piece->score <= best_score)) continue;
      best = i;
      best_score = piece->score;
    }
    if (!best) break;
    symbols[*best] += symbols[*best + 1];
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(*best) + 1);
  }
  std::vector<TokenId> ids;
  for (const std::string& symbol : symbols) {
    if (const ScoreMerger::Piece* piece = FindPiece(pieces, symbol)) {
      ids.push_back(piece->id);
    } else {
      for (const char byte : symbol) ids.push_back(Bytes()[static_cast<uint8_t>(byte)]);
    }
  }
  std::erase(ids, -1);
  return ids;
}

std::vector<TokenId> Merge(const ScoreMerger& merger, std::string_view text) {
  ScoreMerger::Scratch scratch;
  std::vector<TokenId> ids;
  merger.Append(text, scratch, ids);
  return ids;
}

TEST(ScoreMergerTest, BestScoreFirstThenLeftmost) {
  const ScoreMerger merger(
      {{"a", 0, -9}, {"b", 1, -9}, {"c", 2, -9}, {"ab", 3, -2}, {"bc", 4, -1}, {"aa", 5, -3}}, Bytes());
  EXPECT_THAT(Merge(merger, "abc"), ElementsAre(0, 4));
  EXPECT_THAT(Merge(merger, "abb"), ElementsAre(3, 1));
  EXPECT_THAT(Merge(merger, "aaa"), ElementsAre(5, 0));
  EXPECT_THAT(Merge(merger, ""), IsEmpty());
}

TEST(ScoreMergerTest, EqualScoresMergeFromTheLeft) {
  const ScoreMerger merger({{"a", 0, -9}, {"b", 1, -9}, {"c", 2, -9}, {"ab", 3, -1}, {"bc", 4, -1}}, Bytes());
  EXPECT_THAT(Merge(merger, "abc"), ElementsAre(3, 2));
}

TEST(ScoreMergerTest, APieceNeedsAPathOfPairs) {
  const ScoreMerger merger({{"a", 0, -1}, {"b", 1, -1}, {"c", 2, -1}, {"abc", 3, -1}}, Bytes());
  EXPECT_THAT(Merge(merger, "abc"), ElementsAre(0, 1, 2));
}

TEST(ScoreMergerTest, CharacterThatIsNoPieceGivesItsBytes) {
  const ScoreMerger merger({{"a", 0, -1}, {"\u6C34a", 1, -1}}, Bytes());
  EXPECT_THAT(Merge(merger, "a\u6C34"), ElementsAre(0, 1000 + 0xE6, 1000 + 0xB0, 1000 + 0xB4));
  EXPECT_THAT(Merge(merger, "\u6C34a"), ElementsAre(1));  // though it may be part of one
  EXPECT_THAT(Merge(merger, "?a?"), ElementsAre(0));
}

TEST(ScoreMergerTest, RandomVocabulariesAgreeWithTheDefinition) {
  std::mt19937 random(15);
  const std::vector<std::string> letters = {"a", "b", "c", "\u00E9", "\u6C34", "?"};
  const auto random_text = [&](size_t most, size_t of) {
    std::string text;
    for (size_t i = random() % (most + 1); i > 0; --i) text += letters[random() % of];
    return text;
  };
  for (int round = 0; round < 3000; ++round) {
    const size_t of = 1 + random() % letters.size();
    std::vector<std::string> texts(letters.begin(),
                                   letters.begin() + static_cast<ptrdiff_t>(random() % (of + 1)));
    for (size_t count = random() % 25; count > 0; --count) texts.push_back(random_text(6, of));
    std::sort(texts.begin(), texts.end());
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    Pieces pieces;
    for (const std::string& text : texts) {
      // Few scores, so that many are equal.
      pieces.push_back({text, static_cast<TokenId>(pieces.size()), -static_cast<float>(random() % 8)});
    }
    const ScoreMerger merger(pieces, Bytes());
    for (int i = 0; i < 5; ++i) {
      const std::string text = random_text(30, of);
      ASSERT_EQ(Merge(merger, text), NaiveMerge(pieces, text)) << text;
    }
  }
}

}  // namespace
}  // namespace qanat::text
