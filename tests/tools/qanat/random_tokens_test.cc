#include "tools/qanat/random_tokens.h"

#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace qanat::tools {
namespace {

// Against the distributions' own moments.
TEST(RandomTokensTest, LengthsAreAsTheirNamesSay) {
  RandomTokens random(5, 10);
  constexpr int kDraws = 20000;
  double sum = 0;
  int below_median = 0, below_spread = 0;
  for (int i = 0; i < kDraws; ++i) {
    sum += random.Exponential(3);
    const double length = random.LogNormal(100, 2);
    below_median += length < 100;
    below_spread += length < 200;
  }
  EXPECT_NEAR(sum / kDraws, 3, 0.1);
  EXPECT_NEAR(below_median / static_cast<double>(kDraws), 0.5, 0.02);
  EXPECT_NEAR(below_spread / static_cast<double>(kDraws), 0.841, 0.02);
}

TEST(RandomTokensTest, IdsFollowFromTheSeed) {
  const std::vector<TokenId> tokens = RandomTokens(6, 10).Take(100);
  EXPECT_EQ(RandomTokens(6, 10).Take(100), tokens);
  EXPECT_NE(RandomTokens(7, 10).Take(100), tokens);
  EXPECT_EQ(std::set<TokenId>(tokens.begin(), tokens.end()),
            (std::set<TokenId>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace qanat::tools
