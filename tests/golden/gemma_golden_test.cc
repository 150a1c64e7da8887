// Gemma 3 270M (Q4_K_M), whose file is under terms of its own and not fetched by any script here, against
// float32 arithmetic over its de-quantised weights and llama.cpp's tokenizer. QANAT_GEMMA names the file.
#include <cstdio>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/golden/golden_model.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat::golden {
namespace {

std::string GemmaPath() {
  const char* path = std::getenv("QANAT_GEMMA");
  QANAT_CHECK(path != nullptr) << "QANAT_GEMMA must name gemma-3-270m-q4_k_m.gguf";
  return path;
}

TEST(GemmaGoldenTest, EncodesAllTextsAsTheReferenceAndBack) {
  const auto tokenizer = LoadTokenizer(GemmaPath());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::vector<TextAndIds> cases = ReadTextsAndIds(GoldenPath("gemma3/tokenizer.jsonl"));
  ASSERT_EQ(cases.size(), 104u);
  for (const TextAndIds& c : cases) {
    EXPECT_EQ((*tokenizer)->Encode(c.text), c.ids) << c.text;
    EXPECT_EQ((*tokenizer)->Decode(c.ids), c.text);
  }
}

// The file names <eos> alone.
TEST(GemmaGoldenTest, ATurnsEndEndsAGeneration) {
  const auto tokenizer = LoadTokenizer(GemmaPath());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const text::Vocabulary& vocabulary = (*tokenizer)->vocabulary();
  ASSERT_EQ(vocabulary.tokens[106], "<end_of_turn>");
  EXPECT_THAT(vocabulary.eog, testing::ElementsAre(1, 106));
}

TEST(GemmaGoldenTest, ReferenceKernelsAreFloat32) {
  GoldenModel model(GemmaPath(), {.kernels = "reference"});
  const GreedySeen seen = MeasureGreedy(model, ReadGreedy(GoldenPath("gemma3/greedy.jsonl")), 10);
  std::printf("largest deviation of a log-probability: %.6f; best token the same %d/%d\n", seen.largest,
              seen.same, seen.steps);
  EXPECT_EQ(seen.steps, 240);
  EXPECT_LE(seen.largest, 1e-3);
  EXPECT_LE(seen.widest_lost_margin, 0.01);
}

// The second text is longer than the window.
TEST(GemmaGoldenTest, PerplexityIsThatOfFloat32) {
  const std::vector<PerplexityCase> cases = ReadPerplexity(GoldenPath("gemma3/perplexity.jsonl"));
  ASSERT_EQ(cases.size(), 2u);
  for (const auto& [kernels, bound] : {std::pair{"reference", 0.001}, std::pair{"auto", 0.005}}) {
    GoldenModel model(GemmaPath(), {.kernels = kernels});
    for (const PerplexityCase& expected : cases) {
      const double ratio = PerplexityRatio(model, expected);
      std::printf("%s, %zu tokens: perplexity off by %+.5f %%\n", kernels, expected.ids.size(),
                  100 * (ratio - 1));
      EXPECT_NEAR(ratio, 1, bound) << kernels;
    }
  }
}

TEST(GemmaGoldenTest, FastKernelsAreNearFloat32) {
  GoldenModel model(GemmaPath(), {.kernels = "auto"});
  const GreedySeen seen = MeasureGreedy(model, ReadGreedy(GoldenPath("gemma3/greedy.jsonl")), 10);
  std::printf(
      "largest deviation among the top ten, first step: mean %.4f; best token the same %d/%d, widest "
      "margin lost %.3f\n",
      Mean(seen.first), seen.same, seen.steps, seen.widest_lost_margin);
  // What llama.cpp, which also has 8-bit activations, is off by at the same places.
  EXPECT_LE(Mean(seen.first), 0.318);
  EXPECT_LT(seen.widest_lost_margin, 0.4);
}

}  // namespace
}  // namespace qanat::golden
