// A11: a seed was ignored when a neighbour had none; top_k = 1 gave other tokens than temperature 0.
#include <vector>

#include "gtest/gtest.h"
#include "tests/golden/golden_model.h"
#include "tests/golden/golden_tokenizer.h"
#include "worker/model/device_model_runner.h"

namespace qanat::model {
namespace {

using golden::GoldenModel;

// One generation as a caller sees it.
struct Request {
  std::vector<TokenId> prompt;
  sampling::Params params;
  uint64_t seed = 0;
  size_t tokens = 0;
};

class A11SeedsAndGreedyTest : public testing::Test {
 protected:
  A11SeedsAndGreedyTest()
      : golden_(golden::GoldenPath("tiny/llama256-q4_1.gguf"), {.kernels = "auto", .num_blocks = 64}),
        runner_(*golden_.loaded().model, golden_.backend()) {}

  // Decodes all of them together, each in four blocks of its own; the first one's output.
  std::vector<TokenId> Generate(const std::vector<Request>& requests) {
    std::vector<std::vector<TokenId>> tokens;
    std::vector<std::vector<int32_t>> blocks;
    for (size_t i = 0; i < requests.size(); ++i) {
      tokens.push_back(requests[i].prompt);
      const auto first = static_cast<int32_t>(4 * i);
      blocks.push_back({first, first + 1, first + 2, first + 3});
    }
    for (size_t step = 0; step < requests[0].tokens; ++step) {
      engine::ModelBatch batch;
      for (size_t i = 0; i < requests.size(); ++i) {
        const size_t computed = step == 0 ? 0 : tokens[i].size() - 1;
        const size_t needed = (tokens[i].size() + GoldenModel::kBlockSize - 1) / GoldenModel::kBlockSize;
        batch.sequences.push_back({.id = SequenceId{i + 1},
                                   .first_position = static_cast<int32_t>(computed),
                                   .tokens = absl::MakeSpan(tokens[i]).subspan(computed),
                                   .block_table = absl::MakeSpan(blocks[i]).first(needed),
                                   .sample = true,
                                   .params = requests[i].params,
                                   .draw = {requests[i].seed, 0, static_cast<uint32_t>(step)}});
        batch.num_tokens += static_cast<int32_t>(tokens[i].size() - computed);
      }
      const engine::StepOutput output = runner_.Collect(runner_.Launch(batch));
      for (size_t i = 0; i < requests.size(); ++i) tokens[i].push_back(output.sequences[i].token);
    }
    return {tokens[0].begin() + static_cast<std::ptrdiff_t>(requests[0].prompt.size()), tokens[0].end()};
  }

  GoldenModel golden_;
  DeviceModelRunner runner_;
};

TEST_F(A11SeedsAndGreedyTest, ASeedGivesTheSameTokensBesideAnyNeighbours) {
  const Request seeded{{338, 538, 319}, {.temperature = 0.8f}, 42, 40};
  const std::vector<TokenId> alone = Generate({seeded});
  EXPECT_EQ(Generate({seeded}), alone);
  std::vector<Request> crowd = {seeded};
  for (uint64_t i = 0; i < 8; ++i) {
    crowd.push_back({{static_cast<TokenId>(10 + i), 20, 30, 40}, {.temperature = 1.5f}, 1000 + i, 40});
  }
  EXPECT_EQ(Generate(crowd), alone);
  Request other = seeded;
  other.seed = 43;
  EXPECT_NE(Generate({other}), alone);
}

TEST_F(A11SeedsAndGreedyTest, TopKOfOneIsTemperatureZero) {
  const std::vector<TokenId> greedy = Generate({{{338, 538, 319}, {.temperature = 0}, 1, 40}});
  EXPECT_EQ(Generate({{{338, 538, 319}, {.temperature = 1.7f, .top_k = 1}, 2, 40}}), greedy);
  EXPECT_EQ(Generate({{{338, 538, 319}, {.temperature = 9e-6f}, 3, 40}}), greedy);
}

}  // namespace
}  // namespace qanat::model
