// Synthetic models of two layers, small enough for every sanitizer.
#include <cstdio>

#include "gtest/gtest.h"
#include "tests/golden/golden_model.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat::golden {
namespace {

struct TinyPrompt {
  std::vector<TokenId> ids;
  std::vector<Top> top;  // top[n] follows ids[n]
};

std::vector<TinyPrompt> ReadPrompts(const std::string& name) {
  std::ifstream file(GoldenPath("tiny/" + name + ".json"));
  std::vector<TinyPrompt> prompts;
  const nlohmann::json json = ReadJson(file);
  for (const auto& prompt : json.at("prompts")) prompts.push_back({prompt.at("ids"), prompt.at("top10")});
  return prompts;
}

struct Tolerance {
  double mean = 0;
  double worst = 0;
};

// Deviations of the ten best tokens at all 114 positions.
Tolerance Measure(const std::string& name, const std::string& kernels) {
  GoldenModel model(GoldenPath("tiny/" + name + ".gguf"), {.kernels = kernels});
  std::vector<double> deviations;
  int same = 0;
  for (const TinyPrompt& prompt : ReadPrompts(name)) {
    model.Run(prompt.ids, 64, [&](size_t position, absl::Span<const float> logits) {
      const Top& top = prompt.top[position];
      const double normalizer = LogSumExp(logits);
      for (const auto& [id, logprob] : top) deviations.push_back(std::abs(logits[id] - normalizer - logprob));
      same += Best(logits) == top[0].first ? 1 : 0;
    });
  }
  EXPECT_EQ(deviations.size(), 1140u);
  const Tolerance seen{Mean(deviations), *std::max_element(deviations.begin(), deviations.end())};
  std::printf("%s, %s: mean %.6f, worst %.6f, best token the same %d/114\n", name.c_str(), kernels.c_str(),
              seen.mean, seen.worst, same);
  return seen;
}

class TinyReferenceTest : public testing::TestWithParam<const char*> {};

TEST_P(TinyReferenceTest, IsFloat32) { EXPECT_LE(Measure(GetParam(), "reference").worst, 1e-3); }

INSTANTIATE_TEST_SUITE_P(Models, TinyReferenceTest,
                         testing::Values("llama", "mistral", "llama256-q4_1", "llama256-q8_0"));

struct FastCase {
  const char* model;
  // What an established runtime with 8-bit activations was off by on the same file.
  double mean;
};

class TinyFastTest : public testing::TestWithParam<FastCase> {};

TEST_P(TinyFastTest, IsAsNearAsEightBitActivationsAllow) {
  for (const char* kernels : {"scalar", "auto"}) {
    EXPECT_LE(Measure(GetParam().model, kernels).mean, GetParam().mean) << kernels;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TinyFastTest,
                         testing::Values(FastCase{"llama256-q4_1", 0.0546},
                                         FastCase{"llama256-q8_0", 0.0554}));

}  // namespace
}  // namespace qanat::golden
