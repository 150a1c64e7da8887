#include "worker/engine/prompt_lookup.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qanat::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<TokenId> Copy(absl::Span<const TokenId> tokens) { return {tokens.begin(), tokens.end()}; }

TEST(PromptLookupTest, GuessesWhatFollowedTheLatestOccurrence) {
  PromptLookup lookup;
  const std::vector<TokenId> tokens = {1, 2, 3, 9, 1, 2, 4, 5, 1, 2};
  EXPECT_THAT(Copy(lookup.Propose(tokens, 7)), ElementsAre(4, 5));
}

TEST(PromptLookupTest, PrefersTheLongerMatchOverTheLater) {
  PromptLookup lookup;
  const std::vector<TokenId> tokens = {5, 6, 1, 2, 7, 7, 1, 2, 8, 8, 5, 6, 1, 2};
  EXPECT_THAT(Copy(lookup.Propose(tokens, 7)), ElementsAre(7, 7));
}

TEST(PromptLookupTest, SaysNothingWhereNothingRepeats) {
  PromptLookup lookup;
  EXPECT_THAT(Copy(lookup.Propose({}, 7)), IsEmpty());
  EXPECT_THAT(Copy(lookup.Propose(std::vector<TokenId>{1}, 7)), IsEmpty());
  EXPECT_THAT(Copy(lookup.Propose(std::vector<TokenId>{1, 2, 3, 4, 5, 6}, 7)), IsEmpty());
}

TEST(PromptLookupTest, KeepsToTheLimit) {
  PromptLookup lookup;
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6, 1, 2};
  EXPECT_THAT(Copy(lookup.Propose(tokens, 1)), ElementsAre(3));
  EXPECT_THAT(Copy(lookup.Propose(tokens, 0)), IsEmpty());
}

TEST(PromptLookupTest, DraftsGrowWhileTheyAreRightAndShrinkWhenTheyAreNot) {
  PromptLookup lookup;
  std::vector<TokenId> tokens;
  for (int round = 0; round < 4; ++round) {
    for (TokenId token = 0; token < 20; ++token) tokens.push_back(token);
  }
  std::vector<size_t> sizes;
  for (int i = 0; i < 4; ++i) {
    const auto draft = Copy(lookup.Propose(tokens, 7));
    sizes.push_back(draft.size());
    tokens.insert(tokens.end(), draft.begin(), draft.end());
    lookup.Learn(static_cast<int32_t>(draft.size()), static_cast<int32_t>(draft.size()));
  }
  EXPECT_THAT(sizes, ElementsAre(2, 4, 7, 7));
  lookup.Learn(7, 2);
  EXPECT_EQ(lookup.Propose(tokens, 7).size(), 3u);
}

TEST(PromptLookupTest, FallsSilentAfterWrongGuessesAndTriesAgain) {
  PromptLookup lookup;
  std::vector<TokenId> tokens(10, 7);
  int proposals = 0;
  for (int i = 0; i < 1000; ++i) {
    if (!lookup.Propose(tokens, 7).empty()) {
      ++proposals;
      lookup.Learn(1, 0);
    }
    tokens.push_back(7);
  }
  EXPECT_GT(proposals, 10);
  EXPECT_LT(proposals, 25) << "a text without repetitions pays for one draft in 65 tokens";
}

TEST(PromptLookupTest, EntersALongHistoryAPartEachCall) {
  PromptLookup lookup;
  std::vector<TokenId> tokens(3 * PromptLookup::kMaxEntered);
  std::iota(tokens.begin(), tokens.end(), 10);
  tokens.insert(tokens.end(), {10, 11, 12, 13});
  for (int call = 0; call < 3; ++call) EXPECT_THAT(Copy(lookup.Propose(tokens, 7)), IsEmpty()) << call;
  EXPECT_THAT(Copy(lookup.Propose(tokens, 7)), ElementsAre(14, 15));
}

// Against a search from the end, over texts of few different tokens.
TEST(PromptLookupTest, AgreesWithASearch) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    PromptLookup lookup;
    std::vector<TokenId> tokens;
    for (int step = 0; step < 60; ++step) {
      for (uint32_t n = random() % 4; n > 0; --n) tokens.push_back(static_cast<TokenId>(random() % 5));
      const auto size = static_cast<int32_t>(tokens.size());
      int32_t behind = 0;
      for (const int32_t gram : {PromptLookup::kLongGram, PromptLookup::kShortGram}) {
        for (int32_t end = size - 1; end >= gram && behind == 0; --end) {
          if (std::equal(tokens.end() - gram, tokens.end(), tokens.begin() + end - gram)) behind = end;
        }
      }
      std::vector<TokenId> expected;
      if (behind > 0) {
        expected.assign(tokens.begin() + behind, tokens.begin() + std::min(size, behind + 2));
      }
      ASSERT_EQ(Copy(lookup.Propose(tokens, 7)), expected);
    }
  }
}

}  // namespace
}  // namespace qanat::engine
