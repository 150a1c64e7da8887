// Synthetic models of a few layers, small enough for every sanitizer: every family, every way to scale
// positions, every storage format.
#include <cstdio>

#include "gtest/gtest.h"
#include "kernels/kernel_set.h"
#include "tests/golden/tiny_models.h"

namespace qanat::golden {
namespace {

// What 16-bit keys and values, which the fast kernels' cache holds, may cost: as much as 16-bit activations
// do in that runtime.
constexpr double kCacheCost = 0.0153;

Seen MeasureFile(const std::string& name, const std::string& kernels, bool float_cache = false) {
  GoldenModel model(TinyPath(name + ".gguf"), {.kernels = kernels, .float_cache = float_cache});
  Seen seen = Measure(model, ReadPrompts(name));
  EXPECT_EQ(seen.deviations.size(), 1140u);
  EXPECT_EQ(seen.steps, 72);
  std::printf("%s, %s: mean %.6f, worst %.6f; greedy steps lost %d/72, widest margin %.3f\n", name.c_str(),
              kernels.c_str(), Mean(seen.deviations),
              *std::max_element(seen.deviations.begin(), seen.deviations.end()), seen.lost,
              seen.widest_lost_margin);
  return seen;
}

class TinyModelTest : public testing::TestWithParam<std::string> {};

TEST_P(TinyModelTest, ReferenceKernelsAreFloat32) {
  const Seen seen = MeasureFile(GetParam(), "reference");
  EXPECT_LE(*std::max_element(seen.deviations.begin(), seen.deviations.end()), 1e-3);
  EXPECT_EQ(seen.lost, 0);
}

TEST_P(TinyModelTest, FastKernelsAreAsNearAsTheirFormatsAllow) {
  const double established = ReadChecks(GetParam()).at("mean_abs_dlogprob");
  std::vector<std::string> paths = {"scalar", "auto"};
  if (kernels::CpuHasAvx2()) paths.push_back("avx2");
  for (const std::string& kernels : paths) {
    const Seen seen = MeasureFile(GetParam(), kernels);
    EXPECT_LE(Mean(seen.deviations), std::max(established, kCacheCost)) << kernels;
    EXPECT_LT(seen.widest_lost_margin, 0.4) << kernels;
  }
}

std::string NameOf(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, TinyModelTest, testing::ValuesIn(AvailableModels()), NameOf);

// Those whose weights no one quantised: the established runtime's figures were measured with a float32 cache.
class TinyFloatModelTest : public testing::TestWithParam<std::string> {};

TEST_P(TinyFloatModelTest, WithAFloatCacheFastKernelsAreAsNearAsTheEstablishedRuntime) {
  const double established = ReadChecks(GetParam()).at("mean_abs_dlogprob");
  // What float32 itself rounds differently.
  constexpr double kFloat = 1e-5;
  EXPECT_LE(Mean(MeasureFile(GetParam(), "auto", true).deviations), std::max(established, kFloat));
}

std::vector<std::string> FloatModels() {
  std::vector<std::string> models = AvailableModels();
  std::erase_if(models, [](const std::string& name) {
    return ReadChecks(name).at("mean_abs_dlogprob").get<double>() > kCacheCost;
  });
  return models;
}

INSTANTIATE_TEST_SUITE_P(Models, TinyFloatModelTest, testing::ValuesIn(FloatModels()), NameOf);

}  // namespace
}  // namespace qanat::golden
