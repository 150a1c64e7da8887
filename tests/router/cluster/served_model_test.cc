#include "router/cluster/served_model.h"

#include <memory>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qanat::router {
namespace {

using testing::HasSubstr;

std::shared_ptr<const Model> MakeModel(const std::string& id) {
  auto model = std::make_shared<Model>();
  model->id = id;
  model->context_length = 100;
  model->vocab_size = 300;
  model->block_size = 16;
  return model;
}

Worker Serving(std::shared_ptr<const Model> model, int total_blocks,
               WorkerState state = WorkerState::kReady) {
  Worker worker;
  worker.model = std::move(model);
  worker.state = state;
  worker.total_blocks = total_blocks;
  return worker;
}

ClusterSnapshot Of(std::vector<Worker> workers) {
  const size_t size = workers.size();
  return {std::make_shared<const std::vector<Worker>>(std::move(workers)), std::vector<WorkerLoad>(size)};
}

TEST(ServedModelTest, IsUnavailableBeforeAnyWorkerWasReady) {
  const absl::Status status = FindServedModel(Of({Worker()}), "").status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(ReasonOf(status), "NO_WORKER");
}

TEST(ServedModelTest, AnEmptyNameMeansTheOnlyModel) {
  const auto model = MakeModel("a");
  const auto served = FindServedModel(Of({Serving(model, 10), Serving(model, 30), Serving(model, 20)}), "");
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ(served->model, model);
  EXPECT_EQ(served->limits.id, "a");
  EXPECT_EQ(served->limits.context_length, 100);
  EXPECT_EQ(served->limits.vocab_size, 300);
  EXPECT_EQ(served->limits.block_size, 16);
  EXPECT_EQ(served->limits.pool_tokens, 30 * 16);
}

TEST(ServedModelTest, AnEmptyNameAmongSeveralIsRefusedWithTheirNames) {
  const absl::Status status =
      FindServedModel(Of({Serving(MakeModel("b"), 1), Serving(MakeModel("a"), 1)}), "").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(FieldOf(status), "model");
  EXPECT_THAT(std::string(status.message()), HasSubstr("a, b"));
}

TEST(ServedModelTest, FindsTheModelOfThatName) {
  const auto a = MakeModel("a");
  const auto served = FindServedModel(Of({Serving(MakeModel("b"), 9), Serving(a, 2)}), "a");
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ(served->model, a);
  EXPECT_EQ(served->limits.pool_tokens, 2 * 16);
}

TEST(ServedModelTest, AnUnknownNameIsNotFound) {
  const absl::Status status = FindServedModel(Of({Serving(MakeModel("a"), 1)}), "b").status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(FieldOf(status), "model");
}

TEST(ServedModelTest, AModelWhoseWorkersAreDownIsStillKnown) {
  const auto a = MakeModel("a");
  const ClusterSnapshot alone = Of({Serving(a, 1, WorkerState::kDown)});
  EXPECT_EQ(FindServedModel(alone, "a")->model, a);
  EXPECT_EQ(FindServedModel(alone, "")->model, a);
  EXPECT_EQ(FindServedModel(Of({Serving(a, 1, WorkerState::kDown), Serving(MakeModel("b"), 1)}), "a")->model,
            a);
}

TEST(ServedModelTest, AnEmptyNameDoesNotMeanAModelThatNoWorkerServesAnyMore) {
  const auto b = MakeModel("b");
  for (const WorkerState state : {WorkerState::kReady, WorkerState::kSuspect, WorkerState::kDraining}) {
    const auto served =
        FindServedModel(Of({Serving(MakeModel("a"), 1, WorkerState::kDown), Serving(b, 1, state)}), "");
    ASSERT_TRUE(served.ok()) << served.status();
    EXPECT_EQ(served->model, b);
  }
}

}  // namespace
}  // namespace qanat::router
