#include "worker/sampling/scorer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace qanat::sampling {
namespace {

std::vector<float> RandomLogits(std::mt19937_64& random, int size) {
  std::normal_distribution<float> normal(0.0f, 3.0f);
  const float grid = random() % 2 == 0 ? 0 : 0.5f;
  std::vector<float> logits(size);
  for (float& logit : logits) {
    logit = normal(random);
    if (grid > 0) logit = std::nearbyint(logit / grid) * grid;
  }
  return logits;
}

// In long double, and by sorting.
std::vector<long double> Twin(const std::vector<float>& logits) {
  const long double max = *std::max_element(logits.begin(), logits.end());
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max);
  std::vector<long double> logprobs;
  for (const float logit : logits) logprobs.push_back(logit - max - std::log(sum));
  return logprobs;
}

std::vector<TokenId> Order(const std::vector<float>& logits) {
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  return order;
}

TEST(ScorerTest, RandomRowsEqualASoftmaxAndASort) {
  std::mt19937_64 random(17);
  Scorer scorer;
  for (int round = 0; round < 400; ++round) {
    const int size = 1 + static_cast<int>(random() % (round % 10 == 0 ? 6000 : 300));
    const std::vector<float> logits = RandomLogits(random, size);
    const std::vector<long double> logprobs = Twin(logits);
    const std::vector<TokenId> order = Order(logits);
    const auto token = static_cast<TokenId>(random() % logits.size());
    const auto count = static_cast<int32_t>(random() % 21);
    const auto scored = scorer.Score(logits, token, count);
    ASSERT_TRUE(scored.has_value());
    EXPECT_EQ(scored->chosen.token, token);
    EXPECT_NEAR(scored->chosen.logprob, static_cast<double>(logprobs[token]), 2e-6);
    ASSERT_EQ(scored->likeliest.size(), std::min<size_t>(count, logits.size()));
    for (size_t i = 0; i < scored->likeliest.size(); ++i) {
      ASSERT_EQ(scored->likeliest[i].token, order[i]) << "round " << round << " rank " << i;
      ASSERT_LE(scored->likeliest[i].logprob, 0);
      ASSERT_NEAR(scored->likeliest[i].logprob, static_cast<double>(logprobs[order[i]]), 2e-6);
    }
  }
}

TEST(ScorerTest, TheProbabilitiesOfARowSumToOne) {
  std::mt19937_64 random(4);
  const std::vector<float> logits = RandomLogits(random, 49152);
  Scorer scorer;
  const auto all = scorer.Score(logits, 0, 49152);
  double sum = 0;
  for (const TokenLogprob& likely : all->likeliest) sum += std::exp(static_cast<double>(likely.logprob));
  EXPECT_NEAR(sum, 1, 1e-5);
}

TEST(ScorerTest, ACertainTokenIsZeroAndNothingIsAboveIt) {
  Scorer scorer;
  const auto scored = scorer.Score({80, -80, 0}, 0, 3);
  EXPECT_EQ(scored->chosen.logprob, 0);
  EXPECT_EQ(scored->likeliest[1].token, 2);
  EXPECT_EQ(scored->likeliest[1].logprob, -80);
  EXPECT_EQ(scored->likeliest[2].logprob, -160);
}

TEST(ScorerTest, RefusesLogitsThatAreNotFinite) {
  Scorer scorer;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> logits(100, 1.0f);
    logits[70] = bad;
    EXPECT_EQ(scorer.Score(logits, 0, 5), std::nullopt);
  }
}

}  // namespace
}  // namespace qanat::sampling
