// Synthetic models of a few layers, small enough for every sanitizer: every family, every way to scale
// positions, every storage format.
#include <cstdio>

#include "gtest/gtest.h"
#include "tests/golden/tiny_models.h"

namespace qanat::golden {
namespace {

struct TinyModel {
  const char* name;
  bool ours;  // checked in
  // How far the fast kernels' log-probabilities may be off, mean over the ten best tokens.
  double fast;
};

void PrintTo(const TinyModel& model, std::ostream* out) { *out << model.name; }

// Float weights: what the 16-bit cache costs. Quantised ones: what an established runtime with 8-bit
// activations was off by on the same file.
constexpr double kFloat = 0.0153;

constexpr TinyModel kModels[] = {
    {"llama", false, kFloat},         {"llama-linear", true, kFloat},  {"llama-llama3", true, kFloat},
    {"llama-yarn", true, kFloat},     {"qwen2", false, kFloat},        {"qwen2-tied", true, kFloat},
    {"qwen3", false, kFloat},         {"qwen3-tied", true, kFloat},    {"mistral", true, kFloat},
    {"gemma3", false, kFloat},        {"gemma3-keys", true, kFloat},   {"llama256-f16", false, kFloat},
    {"llama256-bf16", false, 0.0153}, {"llama256-q8_0", true, 0.0554}, {"llama256-q4_0", false, 0.0566},
    {"llama256-q4_1", true, 0.0546},
};

std::vector<TinyModel> Available() {
  const bool whole = std::getenv("QANAT_GOLDEN") != nullptr;
  std::vector<TinyModel> models;
  for (const TinyModel& model : kModels) {
    if (model.ours || whole) models.push_back(model);
  }
  return models;
}

std::string NameOf(const testing::TestParamInfo<TinyModel>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

Seen MeasureFile(const std::string& name, const std::string& kernels) {
  GoldenModel model(TinyPath(name + ".gguf"), {.kernels = kernels});
  Seen seen = Measure(model, ReadPrompts(name));
  EXPECT_EQ(seen.deviations.size(), 1140u);
  EXPECT_EQ(seen.steps, 72);
  std::printf("%s, %s: mean %.6f, worst %.6f; greedy steps lost %d/72, widest margin %.3f\n", name.c_str(),
              kernels.c_str(), Mean(seen.deviations),
              *std::max_element(seen.deviations.begin(), seen.deviations.end()), seen.lost,
              seen.widest_lost_margin);
  return seen;
}

class TinyModelTest : public testing::TestWithParam<TinyModel> {};

TEST_P(TinyModelTest, ReferenceKernelsAreFloat32) {
  const Seen seen = MeasureFile(GetParam().name, "reference");
  EXPECT_LE(*std::max_element(seen.deviations.begin(), seen.deviations.end()), 1e-3);
  EXPECT_EQ(seen.lost, 0);
}

TEST_P(TinyModelTest, FastKernelsAreAsNearAsTheirFormatsAllow) {
  for (const char* kernels : {"scalar", "auto"}) {
    const Seen seen = MeasureFile(GetParam().name, kernels);
    EXPECT_LE(Mean(seen.deviations), GetParam().fast) << kernels;
    EXPECT_LT(seen.widest_lost_margin, 0.4) << kernels;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TinyModelTest, testing::ValuesIn(Available()), NameOf);

}  // namespace
}  // namespace qanat::golden
