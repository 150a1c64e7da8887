#include "worker/sampling/logit_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "worker/sampling/sampler.h"

namespace qanat::sampling {
namespace {

std::vector<float> Shape(const std::vector<float>& logits, const LogitRules& rules,
                         const TokenCounts& counts = {}, int32_t position = 0) {
  LogitShaper shaper;
  const absl::Span<const float> row = shaper.Shape(logits, {rules, counts, position});
  return {row.begin(), row.end()};
}

TEST(LogitRulesTest, NoRuleChangesNothing) {
  const std::vector<float> logits = {1.5f, -2.25f, 0.0f, 1e30f};
  EXPECT_FALSE(LogitRules().any());
  EXPECT_EQ(Shape(logits, {}, {{0, 3}, {1, 0}}), logits);
}

TEST(LogitRulesTest, RepetitionCountsPromptAndOutputPresenceAndFrequencyTheOutput) {
  const std::vector<float> logits = {2, -2, 3, -3, 1};
  const TokenCounts counts = {{0, 0}, {1, 0}, {2, 1}, {3, 4}};
  LogitRules rules;
  rules.repetition_penalty = 2;
  EXPECT_EQ(Shape(logits, rules, counts), (std::vector<float>{1, -4, 1.5f, -6, 1}));
  rules = {};
  rules.presence_penalty = 0.5f;
  EXPECT_EQ(Shape(logits, rules, counts), (std::vector<float>{2, -2, 2.5f, -3.5f, 1}));
  rules = {};
  rules.frequency_penalty = -0.5f;
  EXPECT_EQ(Shape(logits, rules, counts), (std::vector<float>{2, -2, 3.5f, -1, 1}));
}

TEST(LogitRulesTest, GoesInTheContractsOrder) {
  LogitRules rules;
  rules.repetition_penalty = 2;
  rules.presence_penalty = 1;
  rules.frequency_penalty = 0.25f;
  rules.bias = {{0, 10}, {1, -100}};
  rules.allowed = {0, 1, 3};
  rules.late = {3};
  rules.min_tokens = 5;
  const TokenCounts counts = {{0, 2}};
  EXPECT_EQ(Shape({8, 1, 2, 3}, rules, counts, 4),
            (std::vector<float>{8.0f / 2 - 1 - 0.5f + 10, -99, kMasked, kMasked}));
  EXPECT_EQ(Shape({8, 1, 2, 3}, rules, counts, 5)[3], 3) << "late tokens may come at min_tokens";
}

TEST(LogitRulesTest, StaysFiniteAndUnmasked) {
  constexpr float kMax = std::numeric_limits<float>::max();
  LogitRules rules;
  rules.repetition_penalty = 1e-38f;
  EXPECT_EQ(Shape({1e10f, -1e10f}, rules, {{0, 0}, {1, 0}})[0], 0x1p+126f);
  rules.repetition_penalty = 10;
  const float least = Shape({-kMax, 0}, rules, {{0, 1}})[0];
  EXPECT_EQ(least, -0x1p+126f);
  EXPECT_GT(least, kMasked);
}

// The rules written down once more, token by token.
float Twin(float x, TokenId id, const LogitRules& rules, const TokenCounts& counts, int32_t position) {
  const auto count = counts.find(id);
  const auto bias = std::find_if(rules.bias.begin(), rules.bias.end(),
                                 [&](const auto& entry) { return entry.first == id; });
  const auto has = [id](const std::vector<TokenId>& ids) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  if (count != counts.end()) {
    x = x > 0 ? x / rules.repetition_penalty : x * rules.repetition_penalty;
    if (count->second > 0) {
      x -= rules.presence_penalty;
      const float penalty = rules.frequency_penalty * static_cast<float>(count->second);
      x -= penalty;
    }
  }
  if (bias != rules.bias.end()) x += bias->second;
  if (!rules.allowed.empty() && !has(rules.allowed)) return kMasked;
  return position < rules.min_tokens && has(rules.late) ? kMasked : x;
}

LogitRules RandomRules(std::mt19937_64& random, int size) {
  std::uniform_real_distribution<float> unit(-1, 1);
  LogitRules rules;
  if (random() % 2 == 0) rules.repetition_penalty = 0.5f + std::abs(unit(random));
  if (random() % 2 == 0) rules.presence_penalty = 2 * unit(random);
  if (random() % 2 == 0) rules.frequency_penalty = 2 * unit(random);
  for (TokenId id = 0; id < size; ++id) {
    if (random() % 10 == 0) rules.bias.emplace_back(id, 100 * unit(random));
  }
  if (random() % 3 == 0) {
    for (TokenId id = 0; id < size; ++id) {
      if (random() % 4 == 0) rules.allowed.push_back(id);
    }
  }
  rules.late = {0, 5};
  rules.min_tokens = static_cast<int32_t>(random() % 6);
  return rules;
}

TEST(LogitRulesTest, RandomRulesEqualTheTwin) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal(0, 4);
  LogitShaper shaper;
  for (int round = 0; round < 1000; ++round) {
    const int size = 6 + static_cast<int>(random() % 200);
    std::vector<float> logits(size);
    for (float& logit : logits) logit = normal(random);
    const LogitRules rules = RandomRules(random, size);
    TokenCounts counts;
    for (int i = 0; i < 20; ++i) {
      counts[static_cast<TokenId>(random() % size)] = static_cast<int32_t>(random() % 4);
    }
    const auto position = static_cast<int32_t>(random() % 6);
    const absl::Span<const float> row = shaper.Shape(logits, {rules, counts, position});
    for (TokenId id = 0; id < size; ++id) {
      ASSERT_EQ(row[id], Twin(logits[id], id, rules, counts, position)) << "round " << round << " id " << id;
    }
  }
}

class RuledSamplerTest : public testing::Test {
 protected:
  std::optional<TokenId> Sample(const std::vector<float>& logits, const Params& params,
                                const LogitRules& rules, uint32_t position = 0) {
    return sampler_.Sample(logits, params, {7, 0, position}, rules, {});
  }

  Sampler sampler_;
};

TEST_F(RuledSamplerTest, GreedyToo) {
  LogitRules rules;
  rules.bias = {{2, 1.5f}};
  EXPECT_EQ(Sample({1, 3, 2}, {.temperature = 0}, rules), 2);
  EXPECT_EQ(Sample({1, 3, 2}, {.temperature = 2, .top_k = 1}, rules), 2);
}

TEST_F(RuledSamplerTest, AMaskedTokenIsNeverDrawn) {
  LogitRules rules;
  rules.allowed = {1, 3};
  for (const float temperature : {0.0f, 1e-5f, 1.0f, 2.0f}) {
    for (uint32_t position = 0; position < 200; ++position) {
      const auto token = Sample({1e38f, -1e38f, 30, -1e38f}, {.temperature = temperature}, rules, position);
      ASSERT_TRUE(token == 1 || token == 3) << token.value_or(-1);
      ASSERT_TRUE(Sample({5, 0, 5, 0}, {.top_k = 3, .top_p = 0.99f}, rules, position) != 0);
    }
  }
}

TEST_F(RuledSamplerTest, NothingLeftIsNoToken) {
  LogitRules rules;
  rules.allowed = {1};
  rules.late = {1};
  rules.min_tokens = 1;
  EXPECT_EQ(Sample({1, 2}, {}, rules), std::nullopt);
  EXPECT_EQ(Sample({1, 2}, {}, rules, 1), 1);
}

// A mask must not hide that the row is broken.
TEST_F(RuledSamplerTest, FailsWhenTheRawRowIsNotFinite) {
  LogitRules rules;
  rules.allowed = {1};
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(Sample({bad, 2}, {}, rules), std::nullopt);
  }
}

}  // namespace
}  // namespace qanat::sampling
