#include "worker/backend/cpu_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kernels/kernel_set.h"
#include "tests/worker/backend/small_model.h"

namespace qanat::backend {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::unique_ptr<Backend> Create(const std::string& kernels, int threads = 1) {
  auto backend = CreateCpuBackend({threads, kernels, false});
  QANAT_CHECK(backend.ok()) << backend.status();
  return std::move(*backend);
}

std::vector<TokenId> RandomTokens(std::mt19937& rng, int count) {
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(rng() % 200);
  return tokens;
}

// Gives out blocks in random order, as a pool in use does.
class Blocks {
 public:
  Blocks(std::mt19937& rng, int count) : free_(count) {
    std::iota(free_.begin(), free_.end(), 0);
    std::shuffle(free_.begin(), free_.end(), rng);
  }
  std::vector<int32_t> Take(int tokens) {
    std::vector<int32_t> table(free_.end() - (tokens + 15) / 16, free_.end());
    free_.resize(free_.size() - table.size());
    return table;
  }
  const std::vector<int32_t>& free() const { return free_; }

 private:
  std::vector<int32_t> free_;
};

using Logits = std::vector<std::vector<float>>;

// One sequence alone, `chunk` rows a step, in a fresh backend.
Logits Alone(const std::string& kernels, int threads, const std::vector<TokenId>& tokens, int chunk,
             const SmallShape& shape = {}) {
  const std::unique_ptr<Backend> backend = Create(kernels, threads);
  SmallModel model(*backend, shape, 7);
  std::mt19937 rng(chunk);
  Blocks blocks(rng, shape.num_blocks);
  const std::vector<int32_t> table = blocks.Take(static_cast<int>(tokens.size()));
  std::vector<int32_t> all(shape.num_blocks);
  std::iota(all.begin(), all.end(), 0);
  backend->PoisonBlocks(all);
  Logits out;
  for (size_t begin = 0; begin < tokens.size(); begin += chunk) {
    const size_t end = std::min(tokens.size(), begin + chunk);
    const Logits rows =
        model.Step({{{tokens.begin() + begin, tokens.begin() + end}, static_cast<int>(begin), table}});
    out.insert(out.end(), rows.begin(), rows.end());
  }
  return out;
}

std::vector<std::string> FastPaths() {
  std::vector<std::string> paths = {"scalar"};
  if (kernels::CpuHasAvx2()) paths.emplace_back("avx2");
  if (kernels::CpuHasAvx512()) paths.emplace_back("avx512");
  if (paths.size() < 3) std::cout << "only " << paths.size() << " of 3 paths run on this CPU\n";
  return paths;
}

TEST(CpuBackendTest, BitsDependOnNeitherPathNorThreadsNorChunks) {
  std::mt19937 rng(1);
  const std::vector<TokenId> tokens = RandomTokens(rng, 75);
  const Logits expected = Alone("scalar", 1, tokens, 75);
  for (const std::string& path : FastPaths()) {
    for (const int threads : {1, 2, 3}) {
      for (const int chunk : {1, 7, 64, 75}) {
        ASSERT_EQ(Alone(path, threads, tokens, chunk), expected) << path << threads << " " << chunk;
      }
    }
  }
}

TEST(CpuBackendTest, LongContextsGiveTheSameBitsHoweverTheyAreSpread) {
  // One row with more than a partition of keys is spread by partition on several threads only.
  std::mt19937 rng(2);
  const std::vector<TokenId> tokens = RandomTokens(rng, 530);
  SmallShape shape;
  shape.max_rows = 600;
  for (const int window : {0, 100, 300}) {
    shape.window = window;
    const Logits expected = Alone("auto", 1, tokens, 530, shape);
    ASSERT_EQ(Alone("auto", 3, tokens, 1, shape), expected) << "window " << window;
    ASSERT_EQ(Alone("auto", 2, tokens, 3, shape), expected) << "window " << window;
  }
}

TEST(CpuBackendTest, ARowDependsOnNoNeighbour) {
  std::mt19937 rng(3);
  for (const std::string& path : FastPaths()) {
    std::vector<std::vector<TokenId>> tokens;
    std::vector<Logits> expected;
    for (const int length : {40, 1, 17, 33, 64}) {
      tokens.push_back(RandomTokens(rng, length));
      expected.push_back(Alone(path, 1, tokens.back(), length));
    }
    const std::unique_ptr<Backend> backend = Create(path, 2);
    SmallModel model(*backend, {}, 7);
    Blocks blocks(rng, SmallShape{}.num_blocks);
    std::vector<SmallSequence> sequences;
    for (const auto& t : tokens) sequences.push_back({{}, 0, blocks.Take(static_cast<int>(t.size()))});
    backend->PoisonBlocks(blocks.free());
    std::vector<size_t> done(tokens.size());
    while (true) {
      std::vector<SmallSequence> step;
      std::vector<size_t> who;
      for (size_t i = 0; i < tokens.size(); ++i) {
        const size_t count = std::min<size_t>(tokens[i].size() - done[i], rng() % 12);
        if (count == 0) continue;
        step.push_back({{tokens[i].begin() + done[i], tokens[i].begin() + done[i] + count},
                        static_cast<int>(done[i]),
                        sequences[i].table});
        who.push_back(i);
      }
      if (step.empty() && std::equal(done.begin(), done.end(), tokens.begin(),
                                     [](size_t n, const auto& t) { return n == t.size(); })) {
        break;
      }
      const Logits out = step.empty() ? Logits{} : model.Step(step);
      size_t row = 0;
      for (size_t s = 0; s < step.size(); ++s) {
        for (size_t k = 0; k < step[s].tokens.size(); ++k, ++row) {
          ASSERT_EQ(out[row], expected[who[s]][done[who[s]] + k]) << path;
        }
        done[who[s]] += step[s].tokens.size();
      }
    }
  }
}

TEST(CpuBackendTest, FastPathsStayNearTheReference) {
  std::mt19937 rng(4);
  const std::vector<TokenId> tokens = RandomTokens(rng, 50);
  for (const DType type : {DType::kF32, DType::kQ8_0, DType::kQ4_1}) {
    SmallShape shape;
    shape.type = shape.value_type = type;
    shape.table_type = type;
    const Logits reference = Alone("reference", 2, tokens, 20, shape);
    for (const std::string& path : FastPaths()) {
      const Logits fast = Alone(path, 2, tokens, 20, shape);
      double error = 0, norm = 0;
      for (size_t r = 0; r < reference.size(); ++r) {
        for (size_t i = 0; i < reference[r].size(); ++i) {
          error += std::pow(fast[r][i] - reference[r][i], 2);
          norm += std::pow(reference[r][i], 2);
        }
      }
      // bf16 keys and values, and 8-bit activations where the weights are quantised.
      EXPECT_LT(std::sqrt(error / norm), type == DType::kF32 ? 0.005 : 0.03)
          << path << static_cast<int>(type);
    }
  }
}

TEST(CpuBackendTest, ReferenceBitsDependOnNeitherThreadsNorChunks) {
  std::mt19937 rng(5);
  const std::vector<TokenId> tokens = RandomTokens(rng, 40);
  const Logits expected = Alone("reference", 1, tokens, 40);
  EXPECT_EQ(Alone("reference", 2, tokens, 7), expected);
}

TEST(CpuBackendTest, ProductsReadWhatWasWrittenLast) {
  // Every way to overwrite an input after the operation that made, and quantised, it.
  std::mt19937 rng(6);
  const std::unique_ptr<Backend> backend = Create("auto");
  const kernels::TestMatrix matrix = kernels::RandomMatrix(rng, kernels::WeightFormat::kQ8_0, 64, 64);
  const Weight w = *backend->LoadMatrix({{"w", DType::kQ8_0, 64, 64, matrix.file}});
  const std::vector<float> ones(64, 1.0f);
  const Weight norm = *backend->LoadVector(
      {"n", DType::kF32, 1, 64, {reinterpret_cast<const std::byte*>(ones.data()), 64 * sizeof(float)}});
  const Weight quarter = *backend->LoadVector(
      {"q", DType::kF32, 1, 16, {reinterpret_cast<const std::byte*>(ones.data()), 16 * sizeof(float)}});
  const Activations source = *backend->Allocate(2, 64), input = *backend->Allocate(2, 64);
  const Activations wide = *backend->Allocate(2, 128), out = *backend->Allocate(2, 64);
  const auto product = [&](Activations in) {
    backend->MatMul(w, in, out);
    return std::vector<float>(backend->Row(out, 1).begin(), backend->Row(out, 1).end());
  };
  // What the product of `input` is when it is not made by an operation that quantises.
  const auto fresh = [&] {
    const Activations copy = *backend->Allocate(2, 64);
    backend->GatherRows(input, std::vector<int32_t>{0, 1}, copy);
    return product(copy);
  };
  const std::vector<TokenId> ids = {3, 9};
  backend->Embed(w, ids, 1, source);
  backend->Embed(w, std::vector<TokenId>{3, 9, 30, 40}, 1, {wide.data, 4, 64});
  std::vector<float> last;
  const auto expect_new = [&](const char* how) {
    const std::vector<float> now = product(input);
    EXPECT_NE(now, last) << how;
    EXPECT_EQ(now, fresh()) << how;
    backend->RmsNorm(source, norm, 1e-5f, input);
    last = product(input);
    EXPECT_EQ(last, fresh()) << how;
    backend->RmsNorm(source, norm, 1e-5f, input);
  };
  expect_new("first");
  backend->Embed(w, std::vector<TokenId>{5, 6}, 1, input);
  expect_new("Embed");
  backend->GatherRows(source, std::vector<int32_t>{1, 0}, input);
  expect_new("GatherRows");
  backend->SiluMul(wide, input);
  expect_new("SiluMul");
  backend->MatMul(w, source, input);
  expect_new("MatMul");
  backend->MatMulAdd(w, source, input);
  expect_new("MatMulAdd");
  backend->GeluMul(wide, input);
  expect_new("GeluMul");
  backend->RmsNormAdd(source, norm, 1e-5f, input);
  expect_new("RmsNormAdd");
  backend->FillRows(norm, input);
  expect_new("FillRows");
  backend->HeadNorm(input, 1, 2, quarter, 1e-5f);
  expect_new("HeadNorm");
}

TEST(CpuBackendTest, ActivationsThatNoMemoryHoldsAreRefused) {
  const std::unique_ptr<Backend> backend = Create("auto");
  const absl::Status status = backend->Allocate(1 << 30, 1 << 20).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("activations needs 4503599627370496 bytes"));
}

TEST(CpuBackendTest, HeadNormTouchesItsHeadsOnly) {
  std::mt19937 rng(7);
  constexpr int kRows = 200, kHeads = 5, kDim = 24, kCols = kHeads * kDim;  // enough for several tiles
  for (const int threads : {1, 2}) {
    const std::unique_ptr<Backend> backend = Create("auto", threads);
    const auto load = [&](const std::vector<float>& vector) {
      return *backend->LoadVector({"n",
                                   DType::kF32,
                                   1,
                                   static_cast<int64_t>(vector.size()),
                                   {reinterpret_cast<const std::byte*>(vector.data()), vector.size() * 4}});
    };
    const std::vector<float> weight = kernels::RandomFloats(rng, kDim);
    const std::vector<float> values = kernels::RandomFloats(rng, kCols, 3);
    const Activations rows = *backend->Allocate(kRows, kCols);
    backend->FillRows(load(values), rows);
    backend->HeadNorm(rows, 1, 3, load(weight), 1e-5f);
    for (int row = 0; row < kRows; ++row) {
      for (int i = 0; i < kCols; ++i) {
        const int head = i / kDim;
        double squares = 0;
        for (int j = 0; j < kDim; ++j) squares += std::pow(values[head * kDim + j], 2);
        const double normed = values[i] / std::sqrt(squares / kDim + 1e-5) * weight[i % kDim];
        ASSERT_NEAR(backend->Row(rows, row)[i], head >= 1 && head < 4 ? normed : values[i], 1e-5)
            << row << " " << i;
      }
    }
  }
}

TEST(CpuBackendTest, NamesPathsAndRefusesOthers) {
  EXPECT_EQ(Create("scalar")->Numerics(), "k1-scalar-bf16kv");
  EXPECT_EQ(Create("reference")->Numerics(), "k1-reference-f32kv");
  EXPECT_EQ(Create("auto")->Numerics(), kernels::CpuHasAvx512() ? "k1-avx512vnni-bf16kv"
                                        : kernels::CpuHasAvx2() ? "k1-avx2-bf16kv"
                                                                : "k1-scalar-bf16kv");
  EXPECT_EQ(CreateCpuBackend({1, "avx2", false}).status().code(),
            kernels::CpuHasAvx2() ? absl::StatusCode::kOk : absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CreateCpuBackend({1, "fast", false}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CreateCpuBackend({-1, "auto", false}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CreateCpuBackend({1, "avx512", false}).status().code(),
            kernels::CpuHasAvx512() ? absl::StatusCode::kOk : absl::StatusCode::kFailedPrecondition);
}

TEST(CpuBackendTest, RefusesWeightsItCannotComputeWith) {
  const std::unique_ptr<Backend> backend = Create("auto");
  const std::vector<std::byte> bytes(144);
  const auto unfit = backend->LoadMatrix({{"blk.3.ffn_up.weight", DType::kQ4_K, 1, 128, bytes}});
  EXPECT_EQ(unfit.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unfit.status().message()),
              AllOf(HasSubstr("blk.3.ffn_up.weight"), HasSubstr("Q4_K")));
  EXPECT_EQ(backend->LoadMatrix({{"w", DType::kQ8_0, 2, 48, bytes}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(backend->LoadMatrix({{"w", DType::kF32, 3, 4, bytes}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(backend->LoadVector({"v", DType::kF16, 1, 72, bytes}).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(CpuBackendTest, RefusesCachesItCannotHold) {
  const auto code = [](const KvConfig& config) { return Create("auto")->AllocateKv(config).code(); };
  EXPECT_EQ(code({2, 2, 64, 8, 10, KvFormat::kBF16}), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code({2, 2, 40, 16, 10, KvFormat::kBF16}), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code({2, 2, 64, 16, 10, KvFormat::kInt8}), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code({2, 2, 64, 16, 0, KvFormat::kBF16}), absl::StatusCode::kInvalidArgument);
  const absl::Status too_large = Create("auto")->AllocateKv({1000, 8, 128, 16, 1 << 30, KvFormat::kBF16});
  EXPECT_EQ(too_large.code(), absl::StatusCode::kResourceExhausted);
  const int64_t bytes = int64_t{1000} * 8 * 128 * 16 * 2 * 2 * (1 << 30);
  EXPECT_THAT(std::string(too_large.message()),
              AllOf(HasSubstr(std::to_string(bytes)), HasSubstr("available")));
}

TEST(CpuBackendTest, CountsItsBytes) {
  const std::unique_ptr<Backend> backend = Create("auto");
  EXPECT_EQ(backend->BlockBytes({30, 3, 64, 16, 1, KvFormat::kBF16}), 30 * 3 * 64 * 16 * 2 * 2);
  const std::vector<std::byte> bytes(32 * 64 / 32 * 20);
  ASSERT_TRUE(backend->LoadMatrix({{"w", DType::kQ4_1, 32, 64, bytes}}).ok());
  EXPECT_EQ(backend->WeightBytes(), static_cast<int64_t>(bytes.size())) << "as large as in the file";
  EXPECT_EQ(Create("reference")->BlockBytes({1, 1, 64, 16, 1, KvFormat::kBF16}), 64 * 16 * 4 * 2);
}

}  // namespace
}  // namespace qanat::backend
