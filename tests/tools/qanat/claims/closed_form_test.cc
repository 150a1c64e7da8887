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

// H_n: how many times the mean the longest of n exponential lengths is.
double Harmonic(int n) {
  double sum = 0;
  for (int i = 1; i <= n; ++i) sum += 1.0 / i;
  return sum;
}

// The lengths that an exponential distribution has at equal steps of probability, in random order.
std::vector<int> Exponential(int count, double mean) {
  std::mt19937 random(7);
  std::vector<int> lengths;
  for (int i = 0; i < count; ++i) {
    lengths.push_back(static_cast<int>(std::lround(-mean * std::log(1 - (i + 0.5) / count))));
    lengths.back() = std::max(lengths.back(), 1);
  }
  std::shuffle(lengths.begin(), lengths.end(), random);
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
  std::vector<double> lengths;
  for (int i = 0; i < 60; ++i) lengths.push_back(1 + static_cast<double>(random() % 200));
  const std::vector<double> expected = ExpectedBatch(lengths, 8);
  std::vector<double> sums(8);
  constexpr int kRounds = 20000;
  for (int round = 0; round < kRounds; ++round) {
    std::shuffle(lengths.begin(), lengths.end(), random);
    std::vector<double> batch(lengths.begin(), lengths.begin() + 8);
    std::sort(batch.begin(), batch.end());
    for (int i = 0; i < 8; ++i) sums[i] += batch[i];
  }
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(sums[i] / kRounds, expected[i], 0.01 * expected[i] + 0.5);
}

TEST(ClosedFormTest, ExponentialLengthsGiveTheHarmonicNumber) {
  const std::vector<int> lengths = Exponential(4000, 1000);
  const Form padded = PaddedForm(lengths, 16, {.step = Same});
  const Form continuous = ContinuousForm(lengths, 16, {.step = Same, .prompts_at_once = 16}, false);
  EXPECT_NEAR(Harmonic(16), 3.3807, 1e-4);
  EXPECT_NEAR(continuous.tokens_per_second / padded.tokens_per_second, Harmonic(16), 0.02);
  EXPECT_NEAR(padded.seats, 16 / Harmonic(16), 0.04);
  EXPECT_NEAR(continuous.seats, 16, 1e-9);
  EXPECT_NEAR(continuous.drawn, 1000, 20);
  EXPECT_NEAR(padded.drawn, 1000, 2);
  // Compacted: mean * sum of step(b) / b.
  double sum = 0;
  for (int b = 1; b <= 16; ++b) sum += Growing(b) / b;
  const Form compacted = CompactedForm(lengths, 16, {.step = Growing});
  EXPECT_NEAR(16 * 1000 / compacted.tokens_per_second, 1000 * sum, 0.01 * 1000 * sum);
}

TEST(ClosedFormTest, EqualLengthsGainNothing) {
  const std::vector<int> lengths(96, 50);
  const Costs costs = {.step = Growing, .prompt_seconds = 0.01, .prompts_at_once = 16};
  const double batch = 16 * 0.01 + 49 * Growing(16);
  const Form padded = PaddedForm(lengths, 16, costs);
  for (const Form& form :
       {padded, CompactedForm(lengths, 16, costs), ContinuousForm(lengths, 16, costs, true)}) {
    EXPECT_NEAR(form.tokens_per_second, 800 / batch, 1e-6);
    EXPECT_NEAR(form.seats, 16, 1e-9);
    EXPECT_NEAR(form.tpot_seconds, Growing(16), 1e-9);
    EXPECT_NEAR(form.ttft_seconds, 2.5 * batch + 0.16, 1e-9);
    EXPECT_NEAR(form.drawn, padded.drawn, 1);
  }
}

// By hand: batches {1, 3} and {3, 1} of two seats; a prompt takes 5, a step 2 and one a row.
TEST(ClosedFormTest, CountsTheStepsOfASmallCase) {
  const Costs costs = {
      .step = [](int rows) { return 2.0 + rows; }, .prompt_seconds = 5, .prompts_at_once = 2};
  EXPECT_NEAR(PaddedForm({1, 3}, 2, costs).tokens_per_second, 4 / (10.0 + 2 * 4), 1e-9);
  const Form compacted = CompactedForm({1, 3}, 2, costs);
  EXPECT_NEAR(compacted.tokens_per_second, 4 / (10.0 + 2 * 3), 1e-9);
  EXPECT_NEAR(compacted.seats, (2 * 10 + 2 * 3) / 16.0, 1e-9);
  EXPECT_NEAR(compacted.drawn, 2.0 * 2 / 2 * 3 / 26, 1e-9);
  // Steps: two prompts (10); a prompt beside a decode (3 + 5); two decodes (4); then, the other one having
  // gone on for a step, a prompt beside a decode (3 + 5), when nobody waits any more.
  const Form continuous = ContinuousForm({1, 3, 5, 2}, 2, costs, false);
  EXPECT_NEAR(continuous.tokens_per_second, 8 / (10.0 + 8 + 4 + 8), 1e-9);
  EXPECT_NEAR(continuous.ttft_seconds, (10 + 10 + 18 + 30) / 4.0, 1e-9);
  EXPECT_NEAR(continuous.tpot_seconds, (8 + 2 * 4 + 8) / 4.0, 1e-9);
  EXPECT_NEAR(continuous.drawn, (8 * 1 + 4 * (2 + 1) + 8 * 2) / (2 * 30.0), 1e-9);
}

}  // namespace
}  // namespace qanat::tools::claims
