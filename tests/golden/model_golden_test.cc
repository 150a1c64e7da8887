// SmolLM2-135M-Instruct Q4_1 against float32 arithmetic over its de-quantised weights.
#include <cstdio>
#include <filesystem>

#include "gtest/gtest.h"
#include "tests/golden/golden_model.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat::golden {
namespace {

class ModelGoldenTest : public testing::Test {
 protected:
  static GoldenModel Load(const std::string& kernels) {
    return GoldenModel(RealModelPath(), {.kernels = kernels});
  }
};

TEST_F(ModelGoldenTest, ReferenceKernelsAreFloat32) {
  GoldenModel model = Load("reference");
  const GreedySeen seen = MeasureGreedy(model, ReadGreedy(GoldenPath("greedy.jsonl")), 10);
  std::printf("largest deviation of a log-probability: %.6f; best token the same %d/%d\n", seen.largest,
              seen.same, seen.steps);
  EXPECT_EQ(seen.steps, 640);
  EXPECT_LE(seen.largest, 1e-3);
  EXPECT_LE(seen.widest_lost_margin, 0.01);
}

TEST_F(ModelGoldenTest, ReferenceKernelsHaveThePerplexityOfFloat32) {
  GoldenModel model = Load("reference");
  const double ratio = PerplexityRatio(model, ReadPerplexity(GoldenPath("perplexity.jsonl")).at(0));
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
  const GreedySeen seen = MeasureGreedy(model, ReadGreedy(GoldenPath("greedy.jsonl")), 5);
  std::printf(
      "largest deviation among the top five, first step: mean %.4f, worst %.4f; best token the same %d/%d\n",
      Mean(seen.first), *std::max_element(seen.first.begin(), seen.first.end()), seen.same, seen.steps);
  EXPECT_EQ(seen.first.size(), 20u);
  EXPECT_LE(Mean(seen.first), 0.15);
}

TEST_F(ModelGoldenTest, FastKernelsHaveThePerplexityOfFloat32) {
  GoldenModel model = Load("auto");
  const double ratio = PerplexityRatio(model, ReadPerplexity(GoldenPath("perplexity.jsonl")).at(0));
  std::printf("perplexity off by %+.4f %%\n", 100 * (ratio - 1));
  EXPECT_NEAR(ratio, 1, 0.005);
}

}  // namespace
}  // namespace qanat::golden
