#include "worker/model/device_model_runner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "tests/golden/golden_model.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat::model {
namespace {

using engine::BatchSequence;
using engine::ModelBatch;
using engine::SequenceOutput;
using golden::GoldenModel;

class DeviceModelRunnerTest : public testing::Test {
 protected:
  DeviceModelRunnerTest()
      : golden_(golden::GoldenPath("tiny/llama256-q4_1.gguf"),
                {.kernels = "auto", .max_tokens = 64, .num_blocks = 32}),
        runner_(*golden_.loaded().model, golden_.backend()) {
    for (int32_t block = 0; block < 32; ++block) blocks_.push_back(block);
  }

  // `ids` from position `first` on, in blocks `first_block`, ...
  BatchSequence Part(absl::Span<const TokenId> ids, int first, int first_block, bool sample) {
    const size_t blocks = (first + ids.size() + GoldenModel::kBlockSize - 1) / GoldenModel::kBlockSize;
    return {.first_position = first,
            .tokens = ids,
            .block_table = absl::MakeSpan(blocks_).subspan(first_block, blocks),
            .sample = sample,
            .params = {.temperature = 0},
            .draw = {}};
  }

  engine::StepOutput Run(const std::vector<BatchSequence>& sequences) {
    ModelBatch batch{sequences};
    for (const BatchSequence& sequence : sequences)
      batch.num_tokens += static_cast<int>(sequence.tokens.size());
    return runner_.Collect(runner_.Launch(batch));
  }

  GoldenModel golden_;
  DeviceModelRunner runner_;
  std::vector<int32_t> blocks_;
};

TEST_F(DeviceModelRunnerTest, DrawsFromTheLogitsAfterTheLastToken) {
  const std::vector<TokenId> a = {5, 6, 7, 8, 9};
  const std::vector<TokenId> b = {100, 200, 300};
  std::vector<TokenId> expected;
  for (const auto* ids : {&a, &b}) {
    golden_.Run(*ids, 64, [&](size_t position, absl::Span<const float> logits) {
      if (position + 1 == ids->size()) expected.push_back(golden::Best(logits));
    });
  }
  const auto output = Run({Part(a, 0, 0, true), Part({b.data(), 2}, 0, 4, false)});
  ASSERT_EQ(output.sequences.size(), 2u);
  EXPECT_EQ(output.sequences[0].kind, SequenceOutput::Kind::kToken);
  EXPECT_EQ(output.sequences[0].token, expected[0]);
  EXPECT_EQ(output.sequences[1].kind, SequenceOutput::Kind::kNone);
  const auto next = Run({Part({&b[2], 1}, 2, 4, true)});
  EXPECT_EQ(next.sequences[0].token, expected[1]);
}

TEST_F(DeviceModelRunnerTest, UsesEachSequencesOwnParametersAndKey) {
  const std::vector<TokenId> ids = {5, 6, 7, 8, 9};
  BatchSequence greedy = Part(ids, 0, 0, true);
  std::vector<BatchSequence> sequences = {greedy};
  for (uint32_t choice = 0; choice < 8; ++choice) {
    BatchSequence drawn = Part(ids, 0, static_cast<int>(choice) + 1, true);
    drawn.params = {.temperature = 2};
    drawn.draw = {.seed = 1, .choice = choice % 4, .position = 0};
    sequences.push_back(drawn);
  }
  const auto output = Run(sequences);
  for (int choice = 0; choice < 4; ++choice) {
    EXPECT_EQ(output.sequences[1 + choice].token, output.sequences[5 + choice].token);
  }
  EXPECT_NE(output.sequences[1].token, output.sequences[2].token);
  EXPECT_EQ(Run({greedy}).sequences[0].token, output.sequences[0].token);
}

// Of prompt and drawn tokens, in whatever chunks: the same bits as from the logits themselves.
TEST_F(DeviceModelRunnerTest, ScoresTokensByTheRawLogits) {
  const std::vector<TokenId> ids = {5, 6, 7, 8, 9, 10, 11};
  std::vector<sampling::ScoredToken> expected;
  sampling::Scorer scorer;
  golden_.Run(ids, 64, [&](size_t position, absl::Span<const float> logits) {
    const TokenId next = position + 1 < ids.size() ? ids[position + 1] : golden::Best(logits);
    expected.push_back(*scorer.Score(logits, next, 4));
  });
  sampling::LogitRules rules;
  rules.bias = {{3, 50}};  // changes what is drawn, not how likely it was
  for (const size_t chunk : {1, 3, 7}) {
    std::vector<sampling::ScoredToken> scored;
    for (size_t first = 0; first < ids.size(); first += chunk) {
      const size_t end = std::min(first + chunk, ids.size());
      BatchSequence part =
          Part({&ids[first], end - first}, static_cast<int>(first), 0, /*sample=*/end == ids.size());
      part.logprobs = 4;
      part.scored_logprobs = 4;
      part.scored = absl::MakeConstSpan(ids).subspan(first + 1, std::min(end, ids.size() - 1) - first);
      // Beside others, which have rows of their own.
      auto output = Run({Part(ids, 0, 4, true), part, Part(ids, 0, 8, true)}).sequences[1];
      scored.insert(scored.end(), output.scored.begin(), output.scored.end());
      scored.insert(scored.end(), output.drawn.begin(), output.drawn.end());
    }
    EXPECT_EQ(scored, expected) << "chunks of " << chunk;
  }
  BatchSequence biased = Part(ids, 0, 0, true);
  const sampling::TokenCounts counts;
  biased.rules = &rules;
  biased.counts = &counts;
  biased.logprobs = 4;
  const auto output = Run({biased}).sequences[0];
  EXPECT_EQ(output.token, 3);
  EXPECT_EQ(output.drawn[0].chosen.token, 3);
  EXPECT_EQ(output.drawn[0].likeliest, expected.back().likeliest);
  EXPECT_LT(output.drawn[0].chosen.logprob, output.drawn[0].likeliest[0].logprob);
}

// Keys and values that are not numbers, where an earlier step should have left some: that row fails alone.
TEST_F(DeviceModelRunnerTest, ARowThatIsNotFiniteFailsAlone) {
  const std::vector<TokenId> ids = {5, 6, 7, 8, 9};
  const auto before = Run({Part(ids, 0, 0, true)});
  const std::vector<int32_t> poisoned = {9};
  golden_.backend().PoisonBlocks(poisoned);
  const auto output = Run({Part(ids, 0, 0, true), Part({&ids[4], 1}, 4, 9, true), Part(ids, 0, 2, true)});
  EXPECT_EQ(output.sequences[0].kind, SequenceOutput::Kind::kToken);
  EXPECT_EQ(output.sequences[0].token, before.sequences[0].token);
  EXPECT_EQ(output.sequences[1].kind, SequenceOutput::Kind::kFailed);
  EXPECT_EQ(output.sequences[2].token, before.sequences[0].token);
}

TEST_F(DeviceModelRunnerTest, RefusesASecondStepInFlight) {
  const std::vector<TokenId> ids = {5};
  ModelBatch batch{{Part(ids, 0, 0, true)}, 1};
  // The backend has threads of its own.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EQ(runner_.depth(), 1);
  const auto handle = runner_.Launch(batch);
  EXPECT_DEATH(runner_.Launch(batch), "in flight");
  EXPECT_DEATH(runner_.Collect(handle + 1), "no such step");
  EXPECT_EQ(runner_.Collect(handle).sequences.size(), 1u);
}

}  // namespace
}  // namespace qanat::model
