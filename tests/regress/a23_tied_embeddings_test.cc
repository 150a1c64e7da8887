// A23: a file without output.weight was refused, or its embedding was kept twice.
#include <string>
#include <vector>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/gguf_builder.h"
#include "tests/fakes/temporary_file.h"
#include "worker/backend/cpu_backend.h"
#include "worker/model/model_loader.h"

namespace qanat::model {
namespace {

using fakes::GgufBuilder;
using fakes::TinyLlama;

// A matrix [8, 32] that no other tensor of the file is equal to.
std::string Matrix(float scale) {
  std::string data;
  for (int i = 0; i < 8 * 32; ++i)
    data += GgufBuilder::Bytes(scale * static_cast<float>((i * 37) % 64 - 32) / 64);
  return data;
}

GgufBuilder Tied() {
  GgufBuilder builder = TinyLlama();
  builder.TensorNamed("token_embd.weight").data = Matrix(1);
  return builder;
}

GgufBuilder WithHead(float scale) {
  GgufBuilder builder = Tied();
  builder.AddTensor("output.weight", {32, 8}).data = Matrix(scale);
  return builder;
}

struct Outcome {
  bool tied;
  int64_t weight_bytes;
  std::vector<float> logits;
};

Outcome RunOneToken(const GgufBuilder& builder) {
  const fakes::TemporaryFile file(builder.Build());
  auto backend = backend::CreateCpuBackend({.threads = 1, .kernels = "reference", .pin = false}).value();
  const LoadedModel loaded = LoadModel(file.path(), *backend, {.max_tokens = 1}).value();
  EXPECT_TRUE(backend->AllocateKv(KvConfigFor(loaded.config, 16, 1, backend::KvFormat::kF32)).ok());
  const std::vector<TokenId> ids = {3};
  const std::vector<int32_t> block = {0};
  const backend::BatchLayout layout{{{.num_rows = 1, .block_table = block}}, 1};
  const std::vector<int32_t> rows = {0};
  const backend::Activations logits = loaded.model->Forward(ids, layout, rows);
  backend->Synchronize();
  const absl::Span<const float> row = backend->Row(logits, 0);
  return {loaded.config.tied_embeddings, backend->WeightBytes(), {row.begin(), row.end()}};
}

TEST(A23TiedEmbeddingsTest, LogitsComeFromTheEmbeddingWhenThereIsNoHead) {
  const Outcome tied = RunOneToken(Tied());
  const Outcome repeated = RunOneToken(WithHead(1));
  const Outcome halved = RunOneToken(WithHead(0.5f));
  EXPECT_TRUE(tied.tied);
  EXPECT_FALSE(halved.tied);
  ASSERT_EQ(tied.logits.size(), 8u);
  EXPECT_EQ(tied.logits, repeated.logits);
  for (size_t id = 0; id < 8; ++id) {
    EXPECT_NE(tied.logits[id], 0);
    EXPECT_FLOAT_EQ(halved.logits[id], tied.logits[id] / 2);
  }
}

TEST(A23TiedEmbeddingsTest, MemoryIsCountedOnce) {
  const int64_t tied = RunOneToken(Tied()).weight_bytes;
  EXPECT_GT(tied, 0);
  // A file that has both, equal byte for byte, and one that has two different matrices.
  EXPECT_EQ(RunOneToken(WithHead(1)).weight_bytes, tied);
  EXPECT_GE(RunOneToken(WithHead(0.5f)).weight_bytes, tied + 8 * 32 * 4);
}

TEST(A23TiedEmbeddingsTest, AFileWithoutEmbeddingNamesIt) {
  for (GgufBuilder builder : {Tied(), WithHead(1)}) {
    builder.RemoveTensor("token_embd.weight");
    const fakes::TemporaryFile file(builder.Build());
    auto backend = backend::CreateCpuBackend({.threads = 1, .kernels = "reference", .pin = false}).value();
    const absl::Status status = LoadModel(file.path(), *backend, {}).status();
    EXPECT_EQ(FieldOf(status), "token_embd.weight");
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("missing tensor"));
  }
}

}  // namespace
}  // namespace qanat::model
