// Leaving a feature out moves the best token's log-probability by as much as it does in the arithmetic that
// the golden values come from: so the golden tests tell each of these features from its absence.
#include <cstdio>
#include <cstring>
#include <functional>

#include "gtest/gtest.h"
#include "tests/golden/tiny_models.h"

namespace qanat::golden {
namespace {

using model::GgufFile;
using model::ModelConfig;

struct Ablation {
  std::string model;
  const char* what;  // as checks.json names it
  std::function<void(ModelConfig&)> change = {};
  // Tensors whose name ends so hold this value throughout.
  const char* tensors = nullptr;
  float value = 0;
};

void PrintTo(const Ablation& ablation, std::ostream* out) { *out << ablation.model << ": " << ablation.what; }

const std::vector<Ablation>& Ablations() {
  const auto wrong_rows = [](ModelConfig& c) { c.style.rope = backend::RopeStyle::kHalves; };
  const auto unscaled = [](ModelConfig& c) { c.rope_scaling = {}; };
  const auto unmagnified = [](ModelConfig& c) { c.rope_scaling.attention_factor /= 1 + 0.1 * std::log(4); };
  static const auto& all = *new std::vector<Ablation>{
      {"llama", "q and k rows not put back in order", wrong_rows},
      {"mistral", "q and k rows not put back in order", wrong_rows},
      {"llama-linear", "no rope scaling", unscaled},
      {"llama-yarn", "no rope scaling", unscaled},
      {"llama-yarn", "no attention factor", unmagnified},
      {"llama-llama3", "no rope scaling", {}, "rope_freqs.weight", 1},
      {"qwen2", "no biases", {}, ".bias", 0},
      {"gemma3", "no window", [](ModelConfig& c) { c.window = 512; }},
      {"gemma3", "window 9", [](ModelConfig& c) { c.window = 9; }},
      {"gemma3", "window 7", [](ModelConfig& c) { c.window = 7; }},
      {"gemma3", "one rope base", [](ModelConfig& c) { c.local_rope_base = c.rope_base; }},
      {"gemma3", "pattern 5", [](ModelConfig& c) { c.window_pattern = 5; }},
      {"gemma3-keys", "window 9", [](ModelConfig& c) { c.window = 9; }},
      {"gemma3-keys", "default local base", [](ModelConfig& c) { c.local_rope_base = 10000; }},
      {"gemma3-keys", "default pattern", [](ModelConfig& c) { c.window_pattern = 6; }},
  };
  return all;
}

std::vector<Ablation> AvailableAblations() {
  const std::vector<std::string> models = AvailableModels();
  std::vector<Ablation> available;
  for (const Ablation& ablation : Ablations()) {
    if (std::find(models.begin(), models.end(), ablation.model) != models.end()) {
      available.push_back(ablation);
    }
  }
  return available;
}

std::vector<std::byte> ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

// Fills tensors of the file in memory; says how many.
int Fill(std::vector<std::byte>& bytes, std::string_view suffix, float value) {
  const auto file = GgufFile::Parse("golden", bytes);
  int filled = 0;
  for (const model::GgufTensor& tensor : (*file)->tensors()) {
    if (!tensor.name.ends_with(suffix)) continue;
    std::byte* const data = bytes.data() + (tensor.data.data() - bytes.data());
    for (size_t at = 0; at < tensor.data.size(); at += sizeof(value)) std::memcpy(data + at, &value, 4);
    ++filled;
  }
  return filled;
}

class TinyFeatureTest : public testing::TestWithParam<Ablation> {};

TEST_P(TinyFeatureTest, IsSeenWhenItIsLeftOut) {
  const Ablation& ablation = GetParam();
  std::vector<std::byte> bytes = ReadBytes(TinyPath(ablation.model + ".gguf"));
  if (ablation.tensors != nullptr) {
    ASSERT_GT(Fill(bytes, ablation.tensors, ablation.value), 0);
  }
  const auto file = GgufFile::Parse("golden", bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  auto config = model::ReadModelConfig(**file);
  ASSERT_TRUE(config.ok()) << config.status();
  if (ablation.change) ablation.change(*config);
  GoldenModel model(**file, *config, {.kernels = "reference"});
  const double moved = Mean(Measure(model, ReadPrompts(ablation.model)).moved);
  std::printf("%s, %s: moved by %.4f\n", ablation.model.c_str(), ablation.what, moved);
  EXPECT_NEAR(moved, ReadChecks(ablation.model).at("moved_by").at(ablation.what), 0.002);
}

INSTANTIATE_TEST_SUITE_P(Models, TinyFeatureTest, testing::ValuesIn(AvailableAblations()));

}  // namespace
}  // namespace qanat::golden
