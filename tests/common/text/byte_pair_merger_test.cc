#include "common/text/byte_pair_merger.h"

#include <random>

#include "gtest/gtest.h"

namespace qanat::text {
namespace {

// Letters 'a'.. are the ids 0.. ; '?' has no piece.
std::array<TokenId, 256> Letters(int count) {
  std::array<TokenId, 256> ids;
  ids.fill(-1);
  for (int i = 0; i < count; ++i) ids[static_cast<size_t>('a' + i)] = i;
  return ids;
}

// The definition: as long as any pair can merge, merge the best, of equals the leftmost.
std::vector<TokenId> NaiveMerge(const std::array<TokenId, 256>& byte_ids,
                                const std::vector<BytePairMerger::Merge>& merges, std::string_view word) {
  std::vector<TokenId> ids;
  for (const char c : word) ids.push_back(byte_ids[static_cast<uint8_t>(c)]);
  for (bool merged = true; merged;) {
    merged = false;
    for (const BytePairMerger::Merge& merge : merges) {
      for (size_t i = 0; i + 1 < ids.size() && !merged; ++i) {
        if (ids[i] != merge.left || ids[i + 1] != merge.right) continue;
        ids[i] = merge.result;
        ids.erase(ids.begin() + static_cast<ptrdiff_t>(i) + 1);
        merged = true;
      }
      if (merged) break;
    }
  }
  std::erase(ids, -1);
  return ids;
}

std::vector<TokenId> Merge(const BytePairMerger& merger, std::string_view word) {
  BytePairMerger::Scratch scratch;
  std::vector<TokenId> ids;
  merger.Append(word, scratch, ids);
  return ids;
}

TEST(BytePairMergerTest, BestRankFirstThenLeftmost) {
  // ab is better than bc, and aa merges from the left.
  const BytePairMerger merger(Letters(3), {{0, 1, 10}, {1, 2, 11}, {0, 0, 12}});
  EXPECT_EQ(Merge(merger, "abc"), (std::vector<TokenId>{10, 2}));
  EXPECT_EQ(Merge(merger, "bbc"), (std::vector<TokenId>{1, 11}));
  EXPECT_EQ(Merge(merger, "aaa"), (std::vector<TokenId>{12, 0}));
  EXPECT_EQ(Merge(merger, ""), (std::vector<TokenId>{}));
}

TEST(BytePairMergerTest, ByteWithoutPieceVanishesAndPartsItsNeighbours) {
  const BytePairMerger merger(Letters(2), {{0, 1, 10}});
  EXPECT_EQ(Merge(merger, "?ab?a?b?"), (std::vector<TokenId>{10, 0, 1}));
  EXPECT_EQ(Merge(merger, "???"), (std::vector<TokenId>{}));
}

TEST(BytePairMergerTest, OfTwoMergesOfOnePairTheFirstCounts) {
  const BytePairMerger merger(Letters(3), {{0, 1, 10}, {1, 2, 11}, {0, 1, 12}});
  EXPECT_EQ(Merge(merger, "abc"), (std::vector<TokenId>{10, 2}));
}

TEST(BytePairMergerTest, RandomVocabulariesAgreeWithTheDefinition) {
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    const int letters = 1 + static_cast<int>(random() % 4);
    std::vector<BytePairMerger::Merge> merges;
    TokenId tokens = letters;
    for (size_t count = random() % 20; merges.size() < count;) {
      const auto any = [&] { return static_cast<TokenId>(random() % static_cast<uint32_t>(tokens)); };
      // Now and then two merges make one token, as in real vocabularies.
      const TokenId result = random() % 8 == 0 && tokens > letters ? tokens - 1 : tokens++;
      merges.push_back({any() % std::max(1, tokens - 1), any() % std::max(1, tokens - 1), result});
    }
    const std::array<TokenId, 256> byte_ids = Letters(letters);
    const BytePairMerger merger(byte_ids, merges);
    for (int i = 0; i < 5; ++i) {
      std::string word(random() % 30, '\0');
      for (char& c : word)
        c = random() % 20 == 0 ? '?' : static_cast<char>('a' + random() % static_cast<uint32_t>(letters));
      ASSERT_EQ(Merge(merger, word), NaiveMerge(byte_ids, merges, word)) << word;
    }
  }
}

}  // namespace
}  // namespace qanat::text
