#include "tools/qanat/claims/closed_form.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace qanat::tools::claims {
namespace {

double Same(int) { return 0.01; }
double Growing(int sequences) { return 0.002 + 0.001 * sequences; }

// The lengths that an exponential distribution has at equal steps of probability.
std::vector<int> Exponential(int count, double mean) {
  std::vector<int> lengths;
  for (int i = 0; i < count; ++i) {
    lengths.push_back(static_cast<int>(std::lround(-mean * std::log(1 - (i + 0.5) / count))));
  }
  return lengths;
}

TEST(ClosedFormTest, ABatchOfAllIsAll) {
  EXPECT_EQ(ExpectedBatch({3, 1, 2}, 3), (std::vector<double>{1, 2, 3}));
  EXPECT_NEAR(ExpectedBatch({3, 1, 2}, 1)[0], 2, 1e-12);
  // Of {1,2}, {1,3}, {2,3}.
  EXPECT_NEAR(ExpectedBatch({3, 1, 2}, 2)[0], 4.0 / 3, 1e-12);
  EXPECT_NEAR(ExpectedBatch({3, 1, 2}, 2)[1], 8.0 / 3, 1e-12);
}

TEST(ClosedFormTest, AgreesWithShuffledBatches) {
  std::mt19937 random(3);
  std::vector<int> lengths;
  for (int i = 0; i < 60; ++i) lengths.push_back(1 + static_cast<int>(random() % 200));
  const std::vector<double> expected = ExpectedBatch(lengths, 8);
  std::vector<double> sums(8);
  constexpr int kRounds = 20000;
  for (int round = 0; round < kRounds; ++round) {
    std::shuffle(lengths.begin(), lengths.end(), random);
    std::vector<int> batch(lengths.begin(), lengths.begin() + 8);
    std::sort(batch.begin(), batch.end());
    for (int i = 0; i < 8; ++i) sums[i] += batch[i];
  }
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(sums[i] / kRounds, expected[i], 0.01 * expected[i] + 0.5);
}

TEST(ClosedFormTest, ExponentialLengthsGiveTheHarmonicNumber) {
  EXPECT_NEAR(Harmonic(16), 3.3807, 1e-4);
  const std::vector<double> batch = ExpectedBatch(Exponential(4000, 1000), 16);
  const BatchForm padded = PaddedForm(batch, Same);
  const BatchForm continuous = ContinuousForm(batch, Same);
  EXPECT_NEAR(padded.seconds / continuous.seconds, Harmonic(16), 0.02);
  EXPECT_NEAR(padded.busy, 1 / Harmonic(16), 0.002);
  EXPECT_EQ(continuous.busy, 1);
  // Compacted: mean * sum of step(b) / b.
  double sum = 0;
  for (int b = 1; b <= 16; ++b) sum += Growing(b) / b;
  EXPECT_NEAR(CompactedForm(batch, Growing).seconds, 1000 * sum, 0.01 * 1000 * sum);
}

TEST(ClosedFormTest, EqualLengthsGainNothing) {
  const std::vector<double> batch = ExpectedBatch(std::vector<int>(100, 50), 16);
  for (const auto& form :
       {PaddedForm(batch, Growing), CompactedForm(batch, Growing), ContinuousForm(batch, Growing)}) {
    EXPECT_NEAR(form.seconds, 50 * Growing(16), 1e-9);
    EXPECT_NEAR(form.busy, 1, 1e-9);
    EXPECT_NEAR(form.step_seconds, Growing(16), 1e-9);
    EXPECT_NEAR(form.tokens, 800, 1e-6);
  }
}

}  // namespace
}  // namespace qanat::tools::claims
