#include "common/base/step_model.h"

#include "gtest/gtest.h"

namespace qanat {
namespace {

constexpr StepModel kModel{.fixed_us = 100,
                           .sequence_us = 2,
                           .weights_us = 500,
                           .token_us = 10,
                           .context_us = 0.25,
                           .attention_us = 0.01};

TEST(StepModelTest, FewTokensCostAsMuchAsReadingTheWeights) {
  EXPECT_DOUBLE_EQ(kModel.PredictUs({.sequences = 1, .tokens = 1}), 602);
  EXPECT_DOUBLE_EQ(kModel.PredictUs({.sequences = 1, .tokens = 50}), 602);
  EXPECT_DOUBLE_EQ(kModel.PredictUs({.sequences = 1, .tokens = 60}), 702);
}

TEST(StepModelTest, ContextAndChunksAddUp) {
  EXPECT_DOUBLE_EQ(
      kModel.PredictUs({.sequences = 2, .tokens = 101, .context_tokens = 400, .chunk_attention = 10000}),
      100 + 4 + 1010 + 100 + 100);
}

}  // namespace
}  // namespace qanat
