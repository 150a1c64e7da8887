#include "worker/model/model_config.h"

#include <cmath>
#include <functional>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/gguf_builder.h"

namespace qanat::model {
namespace {

using fakes::GgufBuilder;
using fakes::TinyModel;

absl::StatusOr<ModelConfig> Read(const GgufBuilder& builder) {
  const std::vector<std::byte> bytes = builder.Build();
  const auto file = GgufFile::Parse("tiny.gguf", bytes);
  if (!file.ok()) return file.status();
  return ReadModelConfig(**file);
}

ModelConfig Config(const GgufBuilder& builder) {
  const auto config = Read(builder);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.value_or(ModelConfig{});
}

TEST(ModelConfigTest, LlamaHasNothingBeyondItself) {
  const ModelConfig config = Config(TinyModel("llama"));
  EXPECT_EQ(config.style.rope, backend::RopeStyle::kInterleaved);
  EXPECT_FALSE(config.style.qkv_bias || config.style.qk_norm || config.style.post_norms);
  EXPECT_EQ(config.style.activation, Activation::kSilu);
  EXPECT_EQ(config.embedding_scale, 1);
  EXPECT_EQ(config.attention_scale, 0.25f);
  EXPECT_EQ(config.rope_scaling.kind, RopeScaling::Kind::kNone);
  EXPECT_FALSE(config.IsLocal(0));
}

TEST(ModelConfigTest, QwenRotatesHalves) {
  const ModelConfig two = Config(TinyModel("qwen2"));
  EXPECT_TRUE(two.style.qkv_bias && !two.style.qk_norm);
  EXPECT_EQ(two.style.rope, backend::RopeStyle::kHalves);
  const ModelConfig three = Config(TinyModel("qwen3"));
  EXPECT_TRUE(!three.style.qkv_bias && three.style.qk_norm);
  EXPECT_EQ(three.style.rope, backend::RopeStyle::kHalves);
}

TEST(ModelConfigTest, GemmaFilesMayLeaveOutPatternAndLocalBase) {
  GgufBuilder builder = TinyModel("gemma3");
  EXPECT_FALSE(Config(builder).IsLocal(0));  // no window at all
  builder.SetU32("gemma3.attention.sliding_window", 512);
  builder.SetU32("gemma3.block_count", 18);
  ModelConfig config = Config(builder);
  EXPECT_EQ(config.window, 512);
  EXPECT_EQ(config.local_rope_base, 10000);
  EXPECT_EQ(config.embedding_scale, std::sqrt(32.0f));
  for (int layer = 0; layer < 18; ++layer) {
    EXPECT_EQ(config.IsLocal(layer), layer != 5 && layer != 11 && layer != 17) << layer;
  }
  builder.SetU32("gemma3.attention.sliding_window_pattern", 3);
  builder.SetF32("gemma3.rope.freq_base_swa", 500);
  config = Config(builder);
  EXPECT_EQ(config.local_rope_base, 500);
  for (int layer = 0; layer < 18; ++layer) EXPECT_EQ(config.IsLocal(layer), layer % 3 != 2) << layer;
}

TEST(ModelConfigTest, ScoresAreScaledAsTheFamilySays) {
  GgufBuilder builder = TinyModel("gemma3");
  builder.SetU32("gemma3.attention.key_length", 64);
  EXPECT_EQ(Config(builder).attention_scale, 0.125f);
  builder.SetU32("gemma3.block_count", 62);
  EXPECT_EQ(Config(builder).attention_scale, 0.25f);
  builder.SetF32("gemma3.attention.scale", 0.5f);
  EXPECT_EQ(Config(builder).attention_scale, 0.5f);
}

TEST(ModelConfigTest, ReadsEveryWayToScalePositions) {
  GgufBuilder builder = TinyModel("llama");
  builder.SetF32("llama.rope.scale_linear", 2);  // as old files say it, the type being linear
  EXPECT_EQ(Config(builder).rope_scaling.kind, RopeScaling::Kind::kLinear);
  EXPECT_EQ(Config(builder).rope_scaling.factor, 2);
  builder.SetF32("llama.rope.scaling.factor", 4);
  EXPECT_EQ(Config(builder).rope_scaling.factor, 4);
  builder.SetString("llama.rope.scaling.type", "yarn");
  RopeScaling yarn = Config(builder).rope_scaling;
  EXPECT_EQ(yarn.kind, RopeScaling::Kind::kYarn);
  EXPECT_EQ(yarn.original_context, 64);  // the context length
  EXPECT_EQ(yarn.attention_factor, 1);
  EXPECT_EQ(yarn.beta_fast, 32);
  EXPECT_EQ(yarn.beta_slow, 1);
  builder.SetU32("llama.rope.scaling.original_context_length", 16);
  builder.SetF32("llama.rope.scaling.attn_factor", 0.5f);
  builder.SetF32("llama.rope.scaling.yarn_beta_fast", 16);
  builder.SetF32("llama.rope.scaling.yarn_beta_slow", 2);
  yarn = Config(builder).rope_scaling;
  EXPECT_EQ(yarn.original_context, 16);
  EXPECT_EQ(yarn.attention_factor, 0.5);
  EXPECT_EQ(yarn.beta_fast, 16);
  EXPECT_EQ(yarn.beta_slow, 2);
}

struct Refusal {
  const char* key;
  absl::StatusCode code;
  std::function<void(GgufBuilder&)> set;
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.key; }

class RefusedConfigTest : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedConfigTest, NamesTheKey) {
  const std::string key = GetParam().key;
  GgufBuilder builder = TinyModel(key.substr(0, key.find('.')));
  GetParam().set(builder);
  const absl::Status status = Read(builder).status();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_EQ(FieldOf(status), key);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith("tiny.gguf: " + key + ": "));
}

constexpr absl::StatusCode kNotHonoured = absl::StatusCode::kUnimplemented;
constexpr absl::StatusCode kWrong = absl::StatusCode::kInvalidArgument;

INSTANTIATE_TEST_SUITE_P(
    Keys, RefusedConfigTest,
    testing::Values(Refusal{"llama.rope.scaling.type", kNotHonoured,
                            [](GgufBuilder& b) { b.SetString("llama.rope.scaling.type", "longrope"); }},
                    Refusal{"qwen2.rope.scaling.type", kNotHonoured,
                            [](GgufBuilder& b) { b.SetString("qwen2.rope.scaling.type", "dynamic"); }},
                    Refusal{"llama.rope.scaling.factor", kNotHonoured,
                            [](GgufBuilder& b) {
                              b.SetString("llama.rope.scaling.type", "none");
                              b.SetF32("llama.rope.scaling.factor", 4);
                            }},
                    Refusal{"llama.rope.scaling.factor", kWrong,
                            [](GgufBuilder& b) { b.SetF32("llama.rope.scaling.factor", 0.5f); }},
                    Refusal{"llama.rope.scaling.factor", kWrong,
                            [](GgufBuilder& b) { b.SetF32("llama.rope.scaling.factor", 1e30f); }},
                    Refusal{"llama.rope.scale_linear", kWrong,
                            [](GgufBuilder& b) { b.SetF32("llama.rope.scale_linear", -1); }},
                    Refusal{"llama.rope.scaling.attn_factor", kNotHonoured,
                            [](GgufBuilder& b) { b.SetF32("llama.rope.scaling.attn_factor", 2); }},
                    Refusal{"llama.rope.scaling.yarn_log_multiplier", kNotHonoured,
                            [](GgufBuilder& b) {
                              b.SetString("llama.rope.scaling.type", "yarn");
                              b.SetF32("llama.rope.scaling.yarn_log_multiplier", 0.1f);
                            }},
                    Refusal{"llama.rope.scaling.original_context_length", kWrong,
                            [](GgufBuilder& b) {
                              b.SetString("llama.rope.scaling.type", "yarn");
                              b.SetU32("llama.rope.scaling.original_context_length", 0);
                            }},
                    Refusal{"llama.rope.freq_base", kWrong,
                            [](GgufBuilder& b) { b.SetF32("llama.rope.freq_base", 1); }},
                    Refusal{"qwen2.attention.sliding_window", kNotHonoured,
                            [](GgufBuilder& b) { b.SetU32("qwen2.attention.sliding_window", 32); }},
                    Refusal{"gemma3.attention.sliding_window_pattern", kWrong,
                            [](GgufBuilder& b) {
                              b.SetU32("gemma3.attention.sliding_window", 8);
                              b.SetU32("gemma3.attention.sliding_window_pattern", 0);
                            }},
                    Refusal{"gemma3.rope.freq_base_swa", kWrong,
                            [](GgufBuilder& b) {
                              b.SetU32("gemma3.attention.sliding_window", 8);
                              b.SetF32("gemma3.rope.freq_base_swa", 1);
                            }},
                    Refusal{"gemma3.final_logit_softcapping", kNotHonoured,
                            [](GgufBuilder& b) { b.SetF32("gemma3.final_logit_softcapping", 30); }},
                    Refusal{"gemma3.attention.scale", kWrong,
                            [](GgufBuilder& b) { b.SetF32("gemma3.attention.scale", -1); }}));

}  // namespace
}  // namespace qanat::model
