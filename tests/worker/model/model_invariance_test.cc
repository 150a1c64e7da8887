// What a sequence gets depends on its tokens only: not on how it is cut into steps, on who else is in the
// step, on where its blocks lie, on what lies in the others, nor on the number of threads. Bit for bit, on
// the fast paths.
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/golden/golden_model.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat::golden {
namespace {

constexpr int kBlocks = 512;

// A row of logits as bytes: NaN equals itself and -0 is not 0.
using Bits = std::vector<uint32_t>;

Bits BitsOf(absl::Span<const float> logits) {
  Bits bits(logits.size());
  std::memcpy(bits.data(), logits.data(), logits.size() * sizeof(float));
  return bits;
}

std::vector<TokenId> RandomIds(uint64_t seed, size_t size) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> ids(size);
  for (TokenId& id : ids) id = static_cast<TokenId>(random() % 600);
  return ids;
}

struct Subject {
  const char* kernels;
  const char* model;
};

class ModelInvarianceTest : public testing::TestWithParam<Subject> {
 protected:
  std::unique_ptr<GoldenModel> Load(int threads) {
    const ModelOptions options{
        .kernels = GetParam().kernels, .threads = threads, .max_tokens = 512, .num_blocks = kBlocks};
    return std::make_unique<GoldenModel>(GoldenPath("tiny/") + GetParam().model + ".gguf", options);
  }

  static void PoisonAll(GoldenModel& model) {
    std::vector<int32_t> blocks(kBlocks);
    std::iota(blocks.begin(), blocks.end(), 0);
    model.backend().PoisonBlocks(blocks);
  }

  // Every row's logits, the sequence alone.
  static std::vector<Bits> Alone(GoldenModel& model, const std::vector<TokenId>& ids, size_t chunk) {
    PoisonAll(model);
    std::vector<Bits> rows;
    model.Run(ids, chunk, [&](size_t, absl::Span<const float> logits) { rows.push_back(BitsOf(logits)); });
    return rows;
  }
};

TEST_P(ModelInvarianceTest, ChunksDoNotMatter) {
  const auto model = Load(2);
  const std::vector<TokenId> ids = RandomIds(1, 300);
  const std::vector<Bits> whole = Alone(*model, ids, 512);
  ASSERT_EQ(whole.size(), ids.size());
  for (const size_t chunk : {1, 7, 64}) {
    EXPECT_TRUE(Alone(*model, ids, chunk) == whole) << "chunks of " << chunk;
  }
}

TEST_P(ModelInvarianceTest, ThreadsDoNotMatter) {
  const std::vector<TokenId> ids = RandomIds(2, 300);
  const auto one = Load(1);
  const auto two = Load(2);
  const auto three = Load(3);
  // Few steps: threads that share a core wait for each other at the end of every operation.
  for (const size_t chunk : {20, 300}) {
    const std::vector<Bits> alone = Alone(*one, ids, chunk);
    EXPECT_TRUE(Alone(*two, ids, chunk) == alone) << "chunks of " << chunk;
    EXPECT_TRUE(Alone(*three, ids, chunk) == alone) << "chunks of " << chunk;
  }
}

// Twelve sequences of very different lengths share their steps at random, each with a random number of its
// next tokens; blocks are handed out in random order.
TEST_P(ModelInvarianceTest, NeighboursDoNotMatter) {
  const auto model = Load(2);
  constexpr size_t kLengths[] = {300, 1, 270, 16, 17, 33, 5, 128, 64, 255, 40, 90};
  struct Running {
    std::vector<TokenId> ids;
    std::vector<Bits> alone;
    std::vector<int32_t> blocks;
    size_t done = 0;
  };
  std::vector<Running> running;
  for (const size_t length : kLengths) {
    Running& next = running.emplace_back();
    next.ids = RandomIds(100 + running.size(), length);
    next.alone = Alone(*model, next.ids, 512);
  }
  PoisonAll(*model);
  std::mt19937_64 random(4);
  std::vector<int32_t> blocks(kBlocks);
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), random);
  for (Running& each : running) {
    for (size_t i = 0; i < each.ids.size(); i += GoldenModel::kBlockSize) {
      each.blocks.push_back(blocks.back());
      blocks.pop_back();
    }
  }
  size_t left = running.size();
  while (left > 0) {
    std::vector<GoldenModel::Part> parts;
    std::vector<Running*> owners;
    size_t budget = 200;
    for (Running& each : running) {
      const size_t rest = each.ids.size() - each.done;
      if (rest == 0 || budget == 0 || random() % 3 == 0) continue;
      const size_t wanted = random() % 2 == 0 ? 1 : 1 + random() % 60;
      const size_t size = std::min({rest, wanted, budget});
      parts.push_back({absl::MakeSpan(each.ids).subspan(each.done, size), each.done, each.blocks});
      owners.push_back(&each);
      budget -= size;
    }
    if (parts.empty()) continue;
    model->Step(parts, [&](size_t part, size_t row, absl::Span<const float> logits) {
      EXPECT_TRUE(BitsOf(logits) == owners[part]->alone[owners[part]->done + row])
          << "position " << owners[part]->done + row << " of " << owners[part]->ids.size();
    });
    for (size_t part = 0; part < parts.size(); ++part) {
      owners[part]->done += parts[part].ids.size();
      if (owners[part]->done == owners[part]->ids.size()) --left;
    }
  }
}

// The prompt's blocks are another sequence's: what a prefix hit reads.
TEST_P(ModelInvarianceTest, SharedBlocksDoNotMatter) {
  const auto model = Load(2);
  const std::vector<TokenId> ids = RandomIds(7, 100);
  const std::vector<Bits> alone = Alone(*model, ids, 512);
  for (const size_t shared : {16, 48, 96}) {
    PoisonAll(*model);
    std::vector<TokenId> other = RandomIds(8, 120);
    std::copy_n(ids.begin(), shared, other.begin());
    model->Run(other, 512, [](size_t, absl::Span<const float>) {});
    std::vector<int32_t> blocks;
    for (size_t i = 0; i < ids.size(); i += GoldenModel::kBlockSize) {
      blocks.push_back(static_cast<int32_t>(i < shared ? i / GoldenModel::kBlockSize : 50 + i));
    }
    model->Step({{absl::MakeSpan(ids).subspan(shared), shared, blocks}},
                [&](size_t, size_t row, absl::Span<const float> logits) {
                  EXPECT_TRUE(BitsOf(logits) == alone[shared + row]) << shared << " " << row;
                });
  }
}

// Gemma has everything that a layer can have: norms, windows, two rotary tables.
INSTANTIATE_TEST_SUITE_P(Kernels, ModelInvarianceTest,
                         testing::Values(Subject{"scalar", "llama256-q4_1"}, Subject{"auto", "llama256-q4_1"},
                                         Subject{"auto", "gemma3"}),
                         [](const auto& info) {
                           return std::string(info.param.kernels) +
                                  (info.param.model[0] == 'g' ? "Gemma" : "Llama");
                         });

// Logits that nobody asked for do not change those that somebody did, nor the cache.
TEST(ModelRowsTest, OnlyTheAskedRowsAreComputed) {
  const ModelOptions options{.kernels = "auto", .max_tokens = 64, .num_blocks = 16};
  GoldenModel model(GoldenPath("tiny/llama256-q4_1.gguf"), options);
  const std::vector<TokenId> ids = RandomIds(9, 40);
  std::vector<Bits> all;
  model.Run(ids, 64, [&](size_t, absl::Span<const float> logits) { all.push_back(BitsOf(logits)); });
  std::vector<int32_t> blocks = {3, 4, 5};
  backend::BatchLayout first{{{.num_rows = 30, .block_table = absl::MakeSpan(blocks).first(2)}}, 30};
  const auto none = model.loaded().model->Forward(absl::MakeSpan(ids).first(30), first, {});
  EXPECT_EQ(none.rows, 0);
  backend::BatchLayout second{{{.num_rows = 10, .first_position = 30, .block_table = blocks}}, 10};
  const std::vector<int32_t> rows = {2, 9};
  const auto logits = model.loaded().model->Forward(absl::MakeSpan(ids).subspan(30), second, rows);
  model.backend().Synchronize();
  ASSERT_EQ(logits.rows, 2);
  EXPECT_TRUE(BitsOf(model.backend().Row(logits, 0)) == all[32]);
  EXPECT_TRUE(BitsOf(model.backend().Row(logits, 1)) == all[39]);
}

}  // namespace
}  // namespace qanat::golden
