#include "worker/engine/step_budget.h"

#include <chrono>

#include "gtest/gtest.h"

namespace qanat::engine {
namespace {

using std::chrono::milliseconds;

// A millisecond a step and a tenth a token.
constexpr StepModel kModel{.fixed_us = 1000, .token_us = 100};

TEST(StepBudgetTest, TokensAreBoundedWithoutAModel) {
  StepBudget budget(100, milliseconds(10), {});
  budget.Take(1, 500);
  EXPECT_EQ(budget.Fit(256, 0), 99);
  budget.Take(99, 99);
  EXPECT_EQ(budget.Fit(1, 0), 0);
  budget.GiveBack(99, 99);
  EXPECT_EQ(budget.tokens(), 99);
}

TEST(StepBudgetTest, AStepWithDecodesKeepsItsTime) {
  StepBudget budget(1000, milliseconds(10), kModel);
  EXPECT_EQ(budget.Fit(256, 0), 256) << "nobody decodes: the target is nobody's";
  for (int i = 0; i < 4; ++i) budget.Take(1, 100);
  EXPECT_EQ(budget.Fit(256, 0), 86) << "10 ms less 1 ms less 4 tokens";
  EXPECT_EQ(budget.Fit(50, 0), 50);
  budget.Take(86, 86);
  EXPECT_EQ(budget.Fit(256, 0), 0);
}

TEST(StepBudgetTest, LaterChunksOfAPromptAreSmaller) {
  StepModel model = kModel;
  model.attention_us = 0.1;
  StepBudget budget(1000, milliseconds(50), model);
  budget.Take(1, 100);
  EXPECT_GT(budget.Fit(256, 0), 2 * budget.Fit(256, 4000));
}

TEST(StepBudgetTest, TheFirstChunkMovesHoweverLateItIs) {
  StepBudget budget(1000, milliseconds(1), kModel);
  for (int i = 0; i < 30; ++i) budget.Take(1, 100);
  EXPECT_EQ(budget.Fit(256, 0), StepBudget::kLeastChunk);
  EXPECT_EQ(budget.Fit(5, 0), 5);
  EXPECT_EQ(budget.Fit(5, 0, /*least=*/0), 0) << "but guesses do not";
  budget.Take(16, 16);
  EXPECT_EQ(budget.Fit(256, 0), 0) << "the second does not";
}

}  // namespace
}  // namespace qanat::engine
