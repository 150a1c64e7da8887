// SmolLM2-135M-Instruct Q4_1 against float32 arithmetic over its de-quantised weights.
#include <cstdio>
#include <filesystem>

#include "gtest/gtest.h"
#include "tests/golden/golden_model.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat::golden {
namespace {

struct Perplexity {
  std::vector<TokenId> ids;
  double nll_per_token;
};

Perplexity ReadPerplexity() {
  std::ifstream file(GoldenPath("perplexity.jsonl"));
  const auto json = ReadJson(file);
  return {json.at("ids"), json.at("nll_per_token")};
}

// exp of this is the perplexity. Mean over the tokens after the first.
double NllPerToken(GoldenModel& model, const std::vector<TokenId>& ids) {
  double sum = 0;
  model.Run(ids, 64, [&](size_t position, absl::Span<const float> logits) {
    if (position + 1 < ids.size()) sum += LogSumExp(logits) - logits[ids[position + 1]];
  });
  return sum / static_cast<double>(ids.size() - 1);
}

class ModelGoldenTest : public testing::Test {
 protected:
  static GoldenModel Load(const std::string& kernels) {
    return GoldenModel(RealModelPath(), {.kernels = kernels});
  }
};

TEST_F(ModelGoldenTest, ReferenceKernelsAreFloat32) {
  GoldenModel model = Load("reference");
  double largest = 0;
  for (const GreedyCase& golden : ReadGreedy(GoldenPath("greedy.jsonl"))) {
    model.Run(golden.Fed(), 64, [&](size_t position, absl::Span<const float> logits) {
      if (position + 1 < golden.ids.size()) return;
      const size_t step = position + 1 - golden.ids.size();
      const double deviation = Deviation(logits, golden.top[step], golden.top[step].size());
      EXPECT_LE(deviation, 1e-3) << "step " << step << " of the prompt of " << golden.ids.size() << " ids";
      if (golden.margin[step] > 0.01) {
        EXPECT_EQ(Best(logits), golden.greedy[step]) << "step " << step;
      }
      largest = std::max(largest, deviation);
    });
  }
  std::printf("largest deviation of a log-probability: %.6f\n", largest);
}

TEST_F(ModelGoldenTest, ReferenceKernelsHaveThePerplexityOfFloat32) {
  GoldenModel model = Load("reference");
  const Perplexity golden = ReadPerplexity();
  const double ratio = std::exp(NllPerToken(model, golden.ids) - golden.nll_per_token);
  std::printf("perplexity off by %+.5f %%\n", 100 * (ratio - 1));
  EXPECT_NEAR(ratio, 1, 0.001);
}

// No output.weight: the embedding is the head too, and is in memory once.
TEST_F(ModelGoldenTest, TiedEmbeddingsAreCountedOnce) {
  GoldenModel model = Load("auto");
  EXPECT_TRUE(model.loaded().config.tied_embeddings);
  EXPECT_EQ(model.loaded().config.quantization, "Q4_1");
  const double file_bytes = static_cast<double>(std::filesystem::file_size(RealModelPath()));
  const double ratio = static_cast<double>(model.backend().WeightBytes()) / file_bytes;
  std::printf("weights take %.3f of the file\n", ratio);
  EXPECT_LT(ratio, 1.1);
}

TEST_F(ModelGoldenTest, FastKernelsAreNearFloat32) {
  GoldenModel model = Load("auto");
  std::vector<double> deviations;
  int same = 0;
  int steps = 0;
  for (const GreedyCase& golden : ReadGreedy(GoldenPath("greedy.jsonl"))) {
    model.Run(golden.Fed(), 64, [&](size_t position, absl::Span<const float> logits) {
      if (position + 1 < golden.ids.size()) return;
      const size_t step = position + 1 - golden.ids.size();
      if (step == 0) deviations.push_back(Deviation(logits, golden.top[0], 5));
      same += Best(logits) == golden.greedy[step] ? 1 : 0;
      ++steps;
    });
  }
  std::printf(
      "largest deviation among the top five, first step: mean %.4f, worst %.4f; best token the same %d/%d\n",
      Mean(deviations), *std::max_element(deviations.begin(), deviations.end()), same, steps);
  EXPECT_EQ(deviations.size(), 20u);
  EXPECT_LE(Mean(deviations), 0.15);
}

TEST_F(ModelGoldenTest, FastKernelsHaveThePerplexityOfFloat32) {
  GoldenModel model = Load("auto");
  const Perplexity golden = ReadPerplexity();
  const double ratio = std::exp(NllPerToken(model, golden.ids) - golden.nll_per_token);
  std::printf("perplexity off by %+.4f %%\n", 100 * (ratio - 1));
  EXPECT_NEAR(ratio, 1, 0.005);
}

}  // namespace
}  // namespace qanat::golden
