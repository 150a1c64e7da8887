#include "worker/engine/padded_runner.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What a device was asked, a step at a time.
class RecordingRunner final : public ModelRunner {
 public:
  Handle Launch(const ModelBatch& batch) override {
    asked = batch;
    for (const BatchSequence& row : batch.sequences) {
      tables.emplace_back(row.block_table.begin(), row.block_table.end());
    }
    return ++handle_;
  }
  StepOutput Collect(Handle) override {
    StepOutput output;
    output.sequences.resize(asked.sequences.size());
    for (SequenceOutput& row : output.sequences) row.token = 1;
    return output;
  }

  ModelBatch asked;
  std::vector<std::vector<int32_t>> tables;

 private:
  Handle handle_ = 0;
};

class PaddedRunnerTest : public testing::Test {
 protected:
  PaddedRunnerTest() {
    options_.max_seqs = 4;
    options_.num_blocks = 100;
    options_.batching = Batching::kStatic;
  }

  // Rows of these ids, each the token at position `position`. The contexts of the padding beside them.
  std::vector<int32_t> Step(std::vector<uint64_t> ids, int32_t position, int32_t num_tokens = 1) {
    const std::vector<TokenId> tokens(num_tokens, 5);
    const std::vector<int32_t> table(64);
    ModelBatch batch;
    for (const uint64_t id : ids) {
      BatchSequence& row = batch.sequences.emplace_back();
      row.id = SequenceId{id};
      row.first_position = position;
      row.tokens = tokens;
      row.block_table = absl::MakeConstSpan(table).first((position + num_tokens + 3) / 4);
      row.sample = true;
      batch.num_tokens += num_tokens;
    }
    inner_.tables.clear();
    const StepOutput output = runner_.Collect(runner_.Launch(batch));
    EXPECT_EQ(output.sequences.size(), ids.size()) << "padding is nobody's answer";
    std::vector<int32_t> contexts;
    int32_t total = 0;
    for (const BatchSequence& row : inner_.asked.sequences) {
      total += static_cast<int32_t>(row.tokens.size());
      if (row.id == kPaddingId) contexts.push_back(row.first_position + 1);
    }
    EXPECT_EQ(inner_.asked.num_tokens, total);
    return contexts;
  }

  EngineOptions options_ = SmallOptions();
  RecordingRunner inner_;
  PaddedRunner runner_{options_, inner_};
};

TEST_F(PaddedRunnerTest, WhoHasEndedIsComputedUntilTheBatchIsOver) {
  EXPECT_THAT(Step({1, 2, 3}, 8, 8), IsEmpty());
  EXPECT_THAT(Step({1, 3}, 16), ElementsAre(16));
  EXPECT_THAT(Step({3}, 17), ElementsAre(17, 16));
  EXPECT_THAT(Step({4, 5}, 0, 8), IsEmpty()) << "another batch";
  EXPECT_THAT(Step({5}, 8), ElementsAre(8));
}

TEST_F(PaddedRunnerTest, WhoseTurnComesAgainIsNotPadded) {
  Step({1, 2}, 8);
  EXPECT_THAT(Step({1}, 9), ElementsAre(9));
  EXPECT_THAT(Step({1, 2}, 10), IsEmpty());
}

TEST_F(PaddedRunnerTest, PaddingHasBlocksBehindThePoolsAnotherForEachSeat) {
  Step({1, 2, 3, 4}, 20);
  Step({2}, 21);
  ASSERT_EQ(inner_.tables.size(), 4u);
  for (int32_t i = 0; i < 3; ++i) EXPECT_EQ(inner_.tables[1 + i], std::vector<int32_t>(6, 100 + i));
  EXPECT_EQ(options_.padding_blocks(), 4);
}

TEST_F(PaddedRunnerTest, AStepGrowsBeyondNoBound) {
  options_.max_batch_tokens = 10;
  Step({1, 2, 3, 4}, 0);
  EXPECT_EQ(Step({1}, 1, 8).size(), 2u) << "there is room for ten tokens";
  Step({1}, 9);
  EXPECT_EQ(Step({1, 5, 6}, 9).size(), 1u) << "there are four seats";
}

}  // namespace
}  // namespace qanat::engine
