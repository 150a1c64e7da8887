#include "worker/sampling/passes.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace qanat::sampling {
namespace {

using internal::PassSet;

struct Row {
  std::vector<float> maxima;
  std::vector<int64_t> weights, block_max, block_sum;
  std::vector<uint16_t> buckets;
  int64_t ties = 0;

  bool operator==(const Row&) const = default;
};

// Everything that one pass set makes of a row.
Row RunAll(const PassSet& set, const std::vector<float>& logits, float scale, int64_t cut, int64_t ties) {
  const int size = static_cast<int>(logits.size());
  Row row;
  row.maxima.resize(NumBlocks(size));
  EXPECT_TRUE(set.find_maxima(logits.data(), size, row.maxima.data()));
  row.weights.resize(size);
  row.block_max.resize(row.maxima.size());
  row.block_sum.resize(row.maxima.size());
  set.weigh(logits.data(), size, *std::max_element(row.maxima.begin(), row.maxima.end()), scale,
            row.weights.data(), row.block_max.data(), row.block_sum.data());
  row.buckets.resize(size);
  set.find_buckets(row.weights.data(), size, row.buckets.data());
  row.ties = ties;
  for (int block = 0; block < NumBlocks(size); ++block) {
    const int begin = block * kBlock;
    set.cut_block(row.weights.data() + begin, std::min(kBlock, size - begin), cut, row.ties,
                  row.block_max[block], row.block_sum[block]);
  }
  return row;
}

TEST(PassesTest, EverySetOfInstructionsGivesTheSameBits) {
  std::mt19937_64 random(11);
  std::normal_distribution<float> normal(0.0f, 4.0f);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> logits(1 + random() % 1000);
    for (float& logit : logits) logit = round % 2 == 0 ? normal(random) : std::nearbyint(normal(random));
    const float scale = std::ldexp(1.0f, static_cast<int>(random() % 12) - 4) * 1.4426950f;
    const int64_t cut = 1 + static_cast<int64_t>(random() % kOne);
    const Row plain = RunAll(internal::SupportedPassSets().front(), logits, scale, cut, 3);
    for (const PassSet& set : internal::SupportedPassSets()) {
      EXPECT_TRUE(RunAll(set, logits, scale, cut, 3) == plain) << set.name << " round " << round;
    }
  }
}

TEST(PassesTest, WeighsByTheExponential) {
  std::vector<float> logits;
  for (int i = 0; i <= 4000; ++i) logits.push_back(static_cast<float>(-i) / 100);
  std::vector<int64_t> weights(logits.size()), max(NumBlocks(4001)), sum(NumBlocks(4001));
  Weigh(logits, 0, 1, absl::MakeSpan(weights), absl::MakeSpan(max), absl::MakeSpan(sum));
  for (size_t i = 0; i < logits.size(); ++i) {
    const double exact = std::ldexp(std::exp2(static_cast<double>(logits[i])), 32);
    EXPECT_NEAR(static_cast<double>(weights[i]), exact, 0.5 + 1.2e-7 * exact) << logits[i];
  }
  EXPECT_EQ(weights[0], kOne);
  EXPECT_EQ(weights[100], kOne / 2);
  EXPECT_EQ(weights[3200], 1);
  EXPECT_EQ(weights[3300], 0);  // half of one, to even
}

TEST(PassesTest, BucketsKeepTheOrderOfWeights) {
  std::vector<int64_t> weights;
  for (int shift = 0; shift < 32; ++shift) {
    for (const int64_t leading : {32, 33, 47, 63}) weights.push_back((leading << shift) / 32);
  }
  weights.push_back(kOne - 1);
  weights.push_back(kOne);
  weights.insert(weights.begin(), 0);
  std::sort(weights.begin(), weights.end());
  int previous = 0;
  for (const int64_t weight : weights) {
    uint16_t bucket = 0;
    FindBuckets({&weight, 1}, {&bucket, 1});
    EXPECT_GE(bucket, previous);
    EXPECT_LT(bucket, kNumBuckets);
    EXPECT_EQ(bucket == 0, weight == 0);
    previous = bucket;
  }
  EXPECT_EQ(previous, kNumBuckets - 1);
}

}  // namespace
}  // namespace qanat::sampling
