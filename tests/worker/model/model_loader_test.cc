#include "worker/model/model_loader.h"

#include <array>
#include <functional>
#include <vector>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/gguf_builder.h"
#include "tests/fakes/temporary_file.h"
#include "worker/backend/cpu_backend.h"

namespace qanat::model {
namespace {

using fakes::GgufBuilder;
using fakes::TinyLlama;
using testing::HasSubstr;

std::unique_ptr<backend::Backend> MakeBackend() {
  auto backend = backend::CreateCpuBackend({.threads = 1, .kernels = "reference", .pin = false});
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

// The status of loading what `builder` builds. The file is the subject of every error.
absl::Status StatusOfLoading(const GgufBuilder& builder, StepLimits limits = {}) {
  const fakes::TemporaryFile file(builder.Build());
  const auto backend = MakeBackend();
  const absl::Status status = LoadModel(file.path(), *backend, limits).status();
  if (!status.ok() && limits.max_tokens == StepLimits{}.max_tokens) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(file.path())) << status;
  }
  return status;
}

TEST(ModelLoaderTest, LoadsConfigVocabularyAndFingerprint) {
  const fakes::TemporaryFile file(TinyLlama().Build());
  const auto backend = MakeBackend();
  const auto loaded = LoadModel(file.path(), *backend, {.max_tokens = 8, .max_logit_rows = 100});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const ModelConfig& config = loaded->config;
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.name, "tiny");
  EXPECT_EQ(config.quantization, "F32");
  EXPECT_EQ(config.num_layers, 1);
  EXPECT_EQ(config.hidden_size, 32);
  EXPECT_EQ(config.num_heads, 2);
  EXPECT_EQ(config.num_kv_heads, 1);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.ffn_size, 32);
  EXPECT_EQ(config.vocab_size, 8);
  EXPECT_EQ(config.context_length, 64);
  EXPECT_EQ(config.rms_eps, 1e-5f);
  EXPECT_EQ(config.rope_base, 10000);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.qkv_size(), 64);
  EXPECT_EQ(loaded->tokenizer->size(), 8);
  EXPECT_EQ(loaded->fingerprint.size(), 32u);
  EXPECT_EQ(loaded->model->limits().max_context, 64);
  EXPECT_EQ(loaded->model->limits().max_logit_rows, 8);
}

TEST(ModelLoaderTest, FingerprintTellsFilesApart) {
  GgufBuilder builder = TinyLlama();
  const fakes::TemporaryFile file(builder.Build());
  const fakes::TemporaryFile copy(builder.Build());
  builder.SetString("general.name", "tinY");
  const fakes::TemporaryFile other(builder.Build());
  std::vector<std::string> fingerprints;
  for (const fakes::TemporaryFile* each : {&file, &copy, &other}) {
    const auto backend = MakeBackend();
    fingerprints.push_back(LoadModel(each->path(), *backend, {}).value().fingerprint);
  }
  EXPECT_EQ(fingerprints[0], fingerprints[1]);
  EXPECT_NE(fingerprints[0], fingerprints[2]);
}

TEST(ModelLoaderTest, WithoutWeightsItReadsWhatComesBeforeThem) {
  std::vector<std::byte> bytes = TinyLlama().Build();
  const fakes::TemporaryFile file(bytes);
  const auto described = LoadWithoutWeights(file.path());
  ASSERT_TRUE(described.ok()) << described.status();
  const auto backend = MakeBackend();
  const LoadedModel loaded = LoadModel(file.path(), *backend, {}).value();
  EXPECT_EQ(described->model, nullptr);
  EXPECT_EQ(described->config.num_layers, loaded.config.num_layers);
  EXPECT_EQ(described->config.context_length, loaded.config.context_length);
  EXPECT_EQ(described->tokenizer->vocabulary().tokens, loaded.tokenizer->vocabulary().tokens);
  EXPECT_NE(described->fingerprint, loaded.fingerprint) << "no router takes one for the other";

  bytes.back() ^= std::byte{1};  // a weight
  EXPECT_EQ(LoadWithoutWeights(fakes::TemporaryFile(bytes).path())->fingerprint, described->fingerprint);
  GgufBuilder other = TinyLlama();
  other.SetString("general.name", "tinY");
  EXPECT_NE(LoadWithoutWeights(fakes::TemporaryFile(other.Build()).path())->fingerprint,
            described->fingerprint);
}

TEST(ModelLoaderTest, QuantizationIsTheTypeOfMostMatrices) {
  GgufBuilder builder = TinyLlama();
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
    GgufBuilder::Tensor& tensor = builder.TensorNamed(std::string("blk.0.") + name + ".weight");
    tensor.type = 3;  // Q4_1
    tensor.bytes = tensor.dims[0] * tensor.dims[1] / 32 * 20;
  }
  const fakes::TemporaryFile file(builder.Build());
  const auto backend = MakeBackend();
  EXPECT_EQ(LoadModel(file.path(), *backend, {}).value().config.quantization, "Q4_1");
}

class FamilyTest : public testing::TestWithParam<const char*> {
 protected:
  static GgufBuilder Tiny() { return fakes::TinyModel(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Architectures, FamilyTest, testing::Values("llama", "qwen2", "qwen3", "gemma3"));

TEST_P(FamilyTest, Loads) { EXPECT_TRUE(StatusOfLoading(Tiny()).ok()) << StatusOfLoading(Tiny()); }

TEST_P(FamilyTest, NamesEveryMissingTensor) {
  for (const GgufBuilder::Tensor& tensor : Tiny().tensors) {
    GgufBuilder builder = Tiny();
    builder.RemoveTensor(tensor.name);
    const absl::Status status = StatusOfLoading(builder);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(FieldOf(status), tensor.name);
    EXPECT_THAT(std::string(status.message()), HasSubstr("missing tensor"));
  }
}

TEST_P(FamilyTest, NamesEveryTensorOfAWrongShape) {
  for (const GgufBuilder::Tensor& tensor : Tiny().tensors) {
    if (tensor.name == "token_embd.weight") continue;  // its rows are the vocabulary's size
    GgufBuilder builder = Tiny();
    builder.TensorNamed(tensor.name).dims.back() += 16;
    const absl::Status status = StatusOfLoading(builder);
    EXPECT_EQ(FieldOf(status), tensor.name);
    EXPECT_THAT(std::string(status.message()), HasSubstr("has the shape"));
  }
}

TEST_P(FamilyTest, RefusesEveryTensorItHasNoUseFor) {
  for (const char* architecture : {"qwen2", "gemma3"}) {
    for (const GgufBuilder::Tensor& tensor : fakes::TinyModel(architecture).tensors) {
      GgufBuilder builder = Tiny();
      const size_t before = builder.tensors.size();
      if (builder.TensorNamed(tensor.name).dims.empty()) builder.tensors.back() = tensor;
      if (builder.tensors.size() == before) continue;
      const absl::Status status = StatusOfLoading(builder);
      EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
      EXPECT_EQ(FieldOf(status), tensor.name);
    }
  }
}

TEST(ModelLoaderTest, NamesATableOfAWrongShape) {
  GgufBuilder builder = TinyLlama();
  builder.TensorNamed("token_embd.weight").dims = {16, 8};
  EXPECT_EQ(FieldOf(StatusOfLoading(builder)), "token_embd.weight");
}

TEST(ModelLoaderTest, NormsMustBeF32) {
  GgufBuilder builder = TinyLlama();
  GgufBuilder::Tensor& norm = builder.TensorNamed("output_norm.weight");
  norm.type = 1;  // F16
  norm.bytes = 64;
  EXPECT_THAT(std::string(StatusOfLoading(builder).message()),
              HasSubstr("output_norm.weight: must be F32, is F16"));
}

TEST(ModelLoaderTest, RotaryDivisorsMustBeUsable) {
  GgufBuilder builder = TinyLlama();
  builder.AddTensor("rope_freqs.weight", {8}).data = std::string(32, '\0');
  EXPECT_THAT(std::string(StatusOfLoading(builder).message()),
              HasSubstr("rope_freqs.weight: no frequency can be divided by 0"));
  builder.TensorNamed("rope_freqs.weight").data =
      GgufBuilder::Bytes(std::array{1.f, 1.f, 1.f, 1.f, 2.f, 4.f, 8.f, 8.f});
  EXPECT_TRUE(StatusOfLoading(builder).ok()) << StatusOfLoading(builder);
  builder.TensorNamed("rope_freqs.weight").dims = {4};
  EXPECT_THAT(std::string(StatusOfLoading(builder).message()), HasSubstr("rope_freqs.weight: has the shape"));
}

TEST(ModelLoaderTest, RefusesAnUnknownArchitectureByName) {
  GgufBuilder builder = TinyLlama();
  builder.SetString("general.architecture", "mamba");
  const absl::Status status = StatusOfLoading(builder);
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("'mamba' is not supported; supported: llama, qwen2, qwen3, gemma3"));
}

struct Refusal {
  const char* key;
  std::function<void(GgufBuilder&)> set;
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.key; }

// What this version would compute wrongly.
class UnhonouredTest : public testing::TestWithParam<Refusal> {};

TEST_P(UnhonouredTest, IsRefusedByItsKey) {
  GgufBuilder builder = TinyLlama();
  GetParam().set(builder);
  const absl::Status status = StatusOfLoading(builder);
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_EQ(FieldOf(status), GetParam().key);
}

INSTANTIATE_TEST_SUITE_P(
    Keys, UnhonouredTest,
    testing::Values(Refusal{"llama.rope.dimension_count",
                            [](GgufBuilder& b) { b.SetU32("llama.rope.dimension_count", 8); }},
                    Refusal{"llama.attention.value_length",
                            [](GgufBuilder& b) { b.SetU32("llama.attention.value_length", 8); }},
                    Refusal{"llama.attention.sliding_window",
                            [](GgufBuilder& b) { b.SetU32("llama.attention.sliding_window", 32); }},
                    Refusal{"llama.expert_count",
                            [](GgufBuilder& b) { b.SetU32("llama.expert_count", 8); }}));

class BadSizeTest : public testing::TestWithParam<Refusal> {};

TEST_P(BadSizeTest, IsRefusedByItsKey) {
  GgufBuilder builder = TinyLlama();
  GetParam().set(builder);
  const absl::Status status = StatusOfLoading(builder);
  EXPECT_TRUE(absl::IsInvalidArgument(status) || absl::IsNotFound(status)) << status;
  EXPECT_EQ(FieldOf(status), GetParam().key);
}

INSTANTIATE_TEST_SUITE_P(
    Keys, BadSizeTest,
    testing::Values(
        Refusal{"general.architecture", [](GgufBuilder& b) { b.Remove("general.architecture"); }},
        Refusal{"llama.block_count", [](GgufBuilder& b) { b.Remove("llama.block_count"); }},
        Refusal{"llama.block_count", [](GgufBuilder& b) { b.SetU32("llama.block_count", 0); }},
        Refusal{"llama.block_count", [](GgufBuilder& b) { b.SetU32("llama.block_count", 1 << 30); }},
        Refusal{"llama.embedding_length",
                [](GgufBuilder& b) { b.SetU32("llama.embedding_length", 0xffffffff); }},
        Refusal{"llama.feed_forward_length",
                [](GgufBuilder& b) { b.SetF32("llama.feed_forward_length", 32); }},
        Refusal{"llama.attention.head_count",
                [](GgufBuilder& b) { b.SetU32("llama.attention.head_count", 0); }},
        Refusal{"llama.attention.head_count_kv",
                [](GgufBuilder& b) { b.SetU32("llama.attention.head_count_kv", 3); }},
        Refusal{"llama.attention.key_length",
                [](GgufBuilder& b) { b.SetU32("llama.attention.key_length", 15); }},
        Refusal{"llama.attention.layer_norm_rms_epsilon",
                [](GgufBuilder& b) { b.SetF32("llama.attention.layer_norm_rms_epsilon", 0); }},
        Refusal{"llama.rope.freq_base", [](GgufBuilder& b) { b.SetF32("llama.rope.freq_base", 0.5f); }},
        Refusal{"llama.context_length", [](GgufBuilder& b) { b.SetU32("llama.context_length", 0); }},
        // Tables for it would take 128 MB: more than the file accounts for.
        Refusal{"llama.context_length", [](GgufBuilder& b) { b.SetU32("llama.context_length", 1 << 21); }}));

TEST(ModelLoaderTest, ALowerLimitServesWhatAHugeContextRefuses) {
  GgufBuilder builder = TinyLlama();
  builder.SetU32("llama.context_length", 1 << 21);
  EXPECT_THAT(std::string(StatusOfLoading(builder).message()), HasSubstr("--context-length"));
  const fakes::TemporaryFile file(builder.Build());
  const auto backend = MakeBackend();
  const auto loaded = LoadModel(file.path(), *backend, {.max_context = 4096});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->context_length, 4096);
  EXPECT_EQ(loaded->config.context_length, 1 << 21);
  EXPECT_EQ(LoadWithoutWeights(file.path(), 4096)->context_length, 4096);
  EXPECT_EQ(FieldOf(LoadWithoutWeights(file.path(), (1 << 21) + 1).status()), "--context-length");
}

TEST(ModelLoaderTest, KeysThatChangeNothingAreAccepted) {
  GgufBuilder builder = TinyLlama();
  builder.SetString("llama.rope.scaling.type", "none");
  builder.SetF32("llama.rope.scaling.factor", 1);
  builder.SetU32("llama.rope.dimension_count", 16);
  builder.SetU32("llama.attention.key_length", 16);
  builder.SetU32("llama.attention.value_length", 16);
  builder.SetU32("llama.expert_count", 0);
  EXPECT_TRUE(StatusOfLoading(builder).ok()) << StatusOfLoading(builder);
}

TEST(ModelLoaderTest, RefusesLimitsThatMakeNoSense) {
  EXPECT_EQ(FieldOf(StatusOfLoading(TinyLlama(), {.max_tokens = 0})), "max_tokens");
  EXPECT_EQ(FieldOf(StatusOfLoading(TinyLlama(), {.max_tokens = 1, .max_logit_rows = 0})), "max_logit_rows");
  EXPECT_EQ(FieldOf(StatusOfLoading(TinyLlama(), {.max_tokens = 1, .max_context = 65})), "--context-length");
}

}  // namespace
}  // namespace qanat::model
