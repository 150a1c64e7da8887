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
  budget.Take(16, 16);
  EXPECT_EQ(budget.Fit(256, 0), 0) << "the second does not";
}

TEST(StepBudgetTest, DraftsCostWhatTheirRowDoesNot) {
  StepModel model = kModel;
  model.sequence_us = 5000;
  model.context_us = 10;
  StepBudget budget(1000, milliseconds(12), model);
  budget.Take(1, 500);
  EXPECT_EQ(budget.FitDrafts(7, 500), 7) << "6.1 ms and 5 of context: the row's, and not taken twice";
  model.attention_us = 0.3;
  budget = StepBudget(1000, milliseconds(12), model);
  budget.Take(1, 500);
  EXPECT_EQ(budget.FitDrafts(7, 500), 3) << "four tokens that read 503 keys take 0.6 ms";
  budget.TakeDrafts(3, 500);
  EXPECT_EQ(budget.tokens(), 996);
}

TEST(StepBudgetTest, AStepThatIsLateTakesDraftsThatCostNothing) {
  StepModel model = kModel;
  model.weights_us = 50000;
  StepBudget budget(1000, milliseconds(10), model);
  budget.Take(1, 100);
  EXPECT_EQ(budget.FitDrafts(7, 100), 7) << "the weights are read anyway";
  StepBudget dear(1000, milliseconds(1), kModel);
  for (int i = 0; i < 4; ++i) dear.Take(1, 100);
  EXPECT_EQ(dear.FitDrafts(7, 100), 1) << "a tenth of 1.4 ms";
}

}  // namespace
}  // namespace qanat::engine
