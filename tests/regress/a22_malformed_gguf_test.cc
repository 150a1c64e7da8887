// A22: a malformed file ended the process (an alignment of 0, a count of 2^63), took all memory, or was
// served.
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/gguf_builder.h"
#include "tests/fakes/peak_memory.h"
#include "tests/fakes/temporary_file.h"
#include "worker/backend/cpu_backend.h"
#include "worker/model/model_loader.h"

namespace qanat::model {
namespace {

using fakes::GgufBuilder;
using fakes::TinyLlama;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr uint64_t kHuge = uint64_t{1} << 63;

backend::Backend& TheBackend() {
  static const auto& backend = *new std::unique_ptr<backend::Backend>(
      backend::CreateCpuBackend({.threads = 1, .kernels = "reference", .pin = false}).value());
  return *backend;
}

struct Refusal {
  absl::Status status;
  double seconds;
  int64_t extra_bytes;  // resident at the peak, beyond what was before
};

Refusal Load(const std::string& path) {
  backend::Backend& backend = TheBackend();
  const fakes::PeakMemory memory;
  const auto start = std::chrono::steady_clock::now();
  absl::Status status = LoadModel(path, backend, {}).status();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return {std::move(status), taken.count(), memory.ExtraBytes()};
}

// `file_bytes`: the pages of a file are not memory that anyone allocated.
void ExpectCheap(const Refusal& refusal, size_t file_bytes) {
#if !defined(QANAT_DEBUG_CHECKS)
  EXPECT_LT(refusal.seconds, 1);
  EXPECT_LT(refusal.extra_bytes, (int64_t{50} << 20) + static_cast<int64_t>(file_bytes));
#endif
}

struct Malformed {
  const char* what;
  std::function<void(GgufBuilder&)> spoil;
  const char* subject;  // the key or tensor that the error names
  const char* reason;
};

void PrintTo(const Malformed& malformed, std::ostream* out) { *out << malformed.what; }

class A22MalformedGgufTest : public testing::TestWithParam<Malformed> {};

TEST_P(A22MalformedGgufTest, IsRefusedByFileKeyAndReason) {
  GgufBuilder builder = TinyLlama();
  GetParam().spoil(builder);
  const std::vector<std::byte> bytes = builder.Build();
  const fakes::TemporaryFile file(bytes);
  const Refusal refusal = Load(file.path());
  EXPECT_TRUE(absl::IsInvalidArgument(refusal.status) || absl::IsUnimplemented(refusal.status))
      << refusal.status;
  EXPECT_THAT(
      std::string(refusal.status.message()),
      AllOf(StartsWith(file.path() + ": " + GetParam().subject + ": "), HasSubstr(GetParam().reason)));
  ExpectCheap(refusal, bytes.size());
}

// A string or an array whose head promises more than follows.
void Promise(GgufBuilder& builder, uint32_t type, std::string head) {
  builder.Set("promise", type, std::move(head));
}
std::string ArrayHead(uint32_t element, uint64_t count) {
  return GgufBuilder::Bytes(element) + GgufBuilder::Bytes(count);
}

INSTANTIATE_TEST_SUITE_P(
    Head, A22MalformedGgufTest,
    testing::Values(
        Malformed{"wrong magic", [](GgufBuilder& b) { b.magic = "GGML"; }, "magic", "not a GGUF file"},
        Malformed{"version 1", [](GgufBuilder& b) { b.version = 1; }, "version", "1 is not supported"},
        Malformed{"version 99", [](GgufBuilder& b) { b.version = 99; }, "version", "99 is not supported"},
        Malformed{"2^63 keys", [](GgufBuilder& b) { b.num_keys = kHuge; }, "key count",
                  "cannot be in a file"},
        Malformed{"-1 keys", [](GgufBuilder& b) { b.num_keys = ~uint64_t{0}; }, "key count",
                  "cannot be in a file"},
        Malformed{"2^63 tensors", [](GgufBuilder& b) { b.num_tensors = kHuge; }, "tensor count",
                  "cannot be in a file"},
        Malformed{"-1 tensors", [](GgufBuilder& b) { b.num_tensors = ~uint64_t{0}; }, "tensor count",
                  "cannot be in a file"}));

INSTANTIATE_TEST_SUITE_P(
    Keys, A22MalformedGgufTest,
    testing::Values(
        Malformed{"a string of 2^63 bytes",
                  [](GgufBuilder& b) { Promise(b, GgufBuilder::kString, GgufBuilder::Bytes(kHuge)); },
                  "promise", "past the end"},
        Malformed{"a string of -1 bytes",
                  [](GgufBuilder& b) { Promise(b, GgufBuilder::kString, GgufBuilder::Bytes(~uint64_t{0})); },
                  "promise", "past the end"},
        Malformed{
            "2^63 numbers",
            [](GgufBuilder& b) { Promise(b, GgufBuilder::kArray, ArrayHead(GgufBuilder::kU32, kHuge)); },
            "promise", "past the end"},
        Malformed{"-1 strings",
                  [](GgufBuilder& b) {
                    Promise(b, GgufBuilder::kArray, ArrayHead(GgufBuilder::kString, ~uint64_t{0}));
                  },
                  "promise", "past the end"},
        Malformed{"an array of arrays",
                  [](GgufBuilder& b) { Promise(b, GgufBuilder::kArray, ArrayHead(GgufBuilder::kArray, 1)); },
                  "promise", "array of arrays"},
        Malformed{"an unknown value type", [](GgufBuilder& b) { Promise(b, 13, ""); }, "promise",
                  "unknown value type 13"},
        Malformed{"a duplicate key", [](GgufBuilder& b) { b.AddTwice("llama.block_count"); },
                  "llama.block_count", "duplicate"},
        Malformed{"alignment 0", [](GgufBuilder& b) { b.SetU32("general.alignment", 0); },
                  "general.alignment", "no power of two"},
        Malformed{"alignment 3", [](GgufBuilder& b) { b.SetU32("general.alignment", 3); },
                  "general.alignment", "no power of two"},
        Malformed{"alignment 2^31", [](GgufBuilder& b) { b.SetU32("general.alignment", 1u << 31); },
                  "general.alignment", "no power of two of at most"}));

INSTANTIATE_TEST_SUITE_P(
    Tensors, A22MalformedGgufTest,
    testing::Values(Malformed{"a duplicate name",
                              [](GgufBuilder& b) { b.AddTensor("output_norm.weight", {32}); },
                              "output_norm.weight", "duplicate"},
                    Malformed{"5 dimensions",
                              [](GgufBuilder& b) {
                                b.AddTensor("t", {1, 1, 1, 1, 1});
                              },
                              "t", "5 dimensions"},
                    Malformed{"a dimension of 0",
                              [](GgufBuilder& b) {
                                b.AddTensor("t", {32, 0});
                              },
                              "t", "dimension 1 is 0"},
                    Malformed{"a negative dimension",
                              [](GgufBuilder& b) { b.AddTensor("t", {~uint64_t{0}}); }, "t", "overflows"},
                    Malformed{"a product that overflows",
                              [](GgufBuilder& b) {
                                b.AddTensor("t", {uint64_t{1} << 32, uint64_t{1} << 32});
                              },
                              "t", "overflows"},
                    Malformed{"type 999", [](GgufBuilder& b) { b.AddTensor("t", {32}).type = 999; }, "t",
                              "unknown tensor type 999"},
                    Malformed{"an unaligned offset", [](GgufBuilder& b) { b.tensors[2].offset = 17; },
                              "blk.0.attn_norm.weight", "no multiple of the alignment"},
                    Malformed{"an offset past the end", [](GgufBuilder& b) { b.tensors[2].offset = 1 << 20; },
                              "blk.0.attn_norm.weight", "past the end"},
                    Malformed{"an offset whose end wraps around",
                              [](GgufBuilder& b) { b.tensors[2].offset = ~uint64_t{31}; },
                              "blk.0.attn_norm.weight", "past the end"},
                    Malformed{"a tensor larger than its file",
                              [](GgufBuilder& b) { b.AddTensor("t", {1 << 30}); }, "t", "past the end"}));

INSTANTIATE_TEST_SUITE_P(
    Vocabulary, A22MalformedGgufTest,
    testing::Values(
        Malformed{"eos 2^32 - 1", [](GgufBuilder& b) { b.SetU32("tokenizer.ggml.eos_token_id", 0xffffffff); },
                  "tokenizer.ggml.eos_token_id", "outside the vocabulary"},
        Malformed{"eos -1",
                  [](GgufBuilder& b) {
                    b.Set("tokenizer.ggml.eos_token_id", GgufBuilder::kI32, GgufBuilder::Bytes(int32_t{-1}));
                  },
                  "tokenizer.ggml.eos_token_id", "does not fit"},
        Malformed{"eos at the vocabulary's size",
                  [](GgufBuilder& b) { b.SetU32("tokenizer.ggml.eos_token_id", 8); },
                  "tokenizer.ggml.eos_token_id", "outside the vocabulary of 8"},
        Malformed{"a merge of an absent token",
                  [](GgufBuilder& b) { b.SetStrings("tokenizer.ggml.merges", {"a z"}); },
                  "tokenizer.ggml.merges", "absent"},
        Malformed{"a merge to an absent token",
                  [](GgufBuilder& b) { b.SetStrings("tokenizer.ggml.merges", {"a c"}); },
                  "tokenizer.ggml.merges", "absent"},
        Malformed{"fewer tokens than rows",
                  [](GgufBuilder& b) {
                    b.SetStrings("tokenizer.ggml.tokens", {"a", "b"});
                  },
                  "tokenizer.ggml.tokens", "token_embd.weight has 8 rows"},
        Malformed{"more rows than tokens",
                  [](GgufBuilder& b) {
                    b.TensorNamed("token_embd.weight").dims = {32, 9};
                  },
                  "tokenizer.ggml.tokens", "token_embd.weight has 9 rows"},
        Malformed{"one token twice",
                  [](GgufBuilder& b) {
                    b.SetStrings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a", "b", "a", "ab", "d"});
                  },
                  "tokenizer.ggml.tokens", "tokens 3 and 5 are both"},
        Malformed{"-1 layers",
                  [](GgufBuilder& b) {
                    b.Set("llama.block_count", GgufBuilder::kI64, GgufBuilder::Bytes(int64_t{-1}));
                  },
                  "llama.block_count", "does not fit"}));

TEST(A22CutGgufTest, IsRefusedAtEveryByteOfTheFirst4KiB) {
  GgufBuilder builder = TinyLlama();
  builder.SetString("tokenizer.chat_template", std::string(4000, 't'));
  const std::vector<std::byte> whole = builder.Build();
  const fakes::TemporaryFile file(whole);
  for (size_t size = whole.size() - 1;; size = size > 4096 ? 4096 : size - 1) {
    std::filesystem::resize_file(file.path(), size);
    const absl::Status status = LoadModel(file.path(), TheBackend(), {}).status();
    EXPECT_THAT(std::string(status.message()), StartsWith(file.path() + ": ")) << size;
    if (size == 0) break;
  }
}

// Files that keep every promise until their last entry, so that everything before was taken for good.
class A22LargeGgufTest : public testing::Test {
 protected:
  static void ExpectRefused(const GgufBuilder& builder, const char* subject, const char* reason) {
    std::vector<std::byte> bytes = builder.Build();
    const fakes::TemporaryFile file(bytes);
    const size_t size = bytes.size();
    bytes = {};
    const Refusal refusal = Load(file.path());
    EXPECT_THAT(std::string(refusal.status.message()), AllOf(HasSubstr(subject), HasSubstr(reason)));
    ExpectCheap(refusal, size);
  }
};

TEST_F(A22LargeGgufTest, AsManyKeysAsAreAllowedTakeLittle) {
  GgufBuilder builder;
  for (uint64_t i = 0; i + 1 < GgufFile::kMaxKeys; ++i)
    builder.Append(std::to_string(i), GgufBuilder::kU8, "x");
  builder.Append("last", 99, "");
  ExpectRefused(builder, "last", "unknown value type");
}

TEST_F(A22LargeGgufTest, AsManyTensorsAsAreAllowedTakeLittle) {
  GgufBuilder builder;
  for (uint64_t i = 0; i < GgufFile::kMaxTensors; ++i) builder.AddTensor(std::to_string(i), {1}).offset = 0;
  builder.tensors.back().type = 999;
  ExpectRefused(builder, "131071", "unknown tensor type");
}

TEST_F(A22LargeGgufTest, AsManyTokensAsAreAllowedTakeLittle) {
  constexpr size_t kTokens = GgufFile::kMaxArrayElements;
  std::vector<std::string> tokens(kTokens);
  for (size_t i = 0; i < kTokens; ++i) tokens[i] = std::to_string(i);
  GgufBuilder builder = TinyLlama();
  builder.SetStrings("tokenizer.ggml.tokens", tokens);
  builder.Remove("tokenizer.ggml.token_type");
  tokens.assign(kTokens, "1 2");
  tokens.back() = "1 x";
  builder.SetStrings("tokenizer.ggml.merges", tokens);
  GgufBuilder::Tensor& embedding = builder.TensorNamed("token_embd.weight");
  embedding.dims = {1, kTokens};
  embedding.bytes = 4 * kTokens;
  ExpectRefused(builder, "tokenizer.ggml.merges", "merge 524287 names a token that is absent");
}

// Each of them ends generations: looking for it among all those before took minutes.
TEST_F(A22LargeGgufTest, AnEndMarkerInEveryTokenTakesLittle) {
  constexpr size_t kTokens = GgufFile::kMaxArrayElements;
  GgufBuilder builder = TinyLlama();
  builder.SetStrings("tokenizer.ggml.tokens", std::vector<std::string>(kTokens, "<|im_end|>"));
  builder.SetI32s("tokenizer.ggml.token_type", std::vector<int32_t>(kTokens, 3));
  builder.Remove("tokenizer.ggml.merges");
  GgufBuilder::Tensor& embedding = builder.TensorNamed("token_embd.weight");
  embedding.dims = {1, kTokens};
  embedding.bytes = 4 * kTokens;
  ExpectRefused(builder, "tokenizer.ggml.tokens", "tokens 0 and 1 are both");
}

}  // namespace
}  // namespace qanat::model
