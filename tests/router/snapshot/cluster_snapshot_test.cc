#include "router/snapshot/cluster_snapshot.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace qanat::router {
namespace {

std::shared_ptr<const Model> MakeModel(const std::string& id, const std::string& fingerprint) {
  auto model = std::make_shared<Model>();
  model->id = id;
  model->fingerprint = fingerprint;
  return model;
}

Worker Serving(std::shared_ptr<const Model> model, WorkerState state) {
  Worker worker;
  worker.model = std::move(model);
  worker.state = state;
  return worker;
}

ClusterSnapshot Of(std::vector<Worker> workers) {
  const size_t size = workers.size();
  return {std::make_shared<const std::vector<Worker>>(std::move(workers)), std::vector<WorkerLoad>(size)};
}

TEST(ClusterSnapshotTest, AnEmptyOneServesNothing) {
  EXPECT_EQ(ClusterSnapshot().size(), 0u);
  EXPECT_TRUE(ModelsOf(ClusterSnapshot()).empty());
}

TEST(ClusterSnapshotTest, ListsEachModelOnceInOrderOfItsName) {
  const auto a = MakeModel("a", "1");
  const auto b = MakeModel("b", "2");
  const auto models = ModelsOf(Of({Worker(), Serving(b, WorkerState::kReady),
                                   Serving(a, WorkerState::kSuspect), Serving(b, WorkerState::kReady)}));
  EXPECT_EQ(models, (std::vector<std::shared_ptr<const Model>>{a, b}));
}

TEST(ClusterSnapshotTest, ListsWhatWasServedOnlyWhereNothingIs) {
  const auto a = MakeModel("a", "1");
  const auto b = MakeModel("b", "2");
  const auto list = [&](WorkerState state) {
    return ModelsOf(Of({Serving(a, WorkerState::kDown), Serving(b, state)}));
  };
  EXPECT_EQ(list(WorkerState::kReady), (std::vector<std::shared_ptr<const Model>>{b}));
  EXPECT_EQ(list(WorkerState::kDraining), (std::vector<std::shared_ptr<const Model>>{b}));
  EXPECT_EQ(list(WorkerState::kDown), (std::vector<std::shared_ptr<const Model>>{a, b}));
}

TEST(ClusterSnapshotTest, PrefersTheModelThatIsServedNow) {
  const auto old = MakeModel("a", "1");
  const auto now = MakeModel("a", "2");
  for (const auto& workers :
       {std::vector{Serving(old, WorkerState::kDown), Serving(now, WorkerState::kSuspect)},
        std::vector{Serving(now, WorkerState::kReady), Serving(old, WorkerState::kDown)}}) {
    EXPECT_EQ(ModelsOf(Of(workers)), (std::vector<std::shared_ptr<const Model>>{now}));
    EXPECT_EQ(FindModel(Of(workers), "a"), now);
    EXPECT_EQ(FindModel(Of(workers), "b"), nullptr);
  }
}

TEST(ClusterSnapshotTest, EachStateHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (const WorkerState state : kWorkerStates) names.insert(StateName(state));
  EXPECT_EQ(names, (std::set<std::string_view>{"connecting", "draining", "down", "ready", "suspect"}));
}

}  // namespace
}  // namespace qanat::router
