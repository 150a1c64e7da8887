#include "router/routing/candidates.h"

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"

namespace qanat::router {
namespace {

class CandidatesTest : public testing::Test {
 protected:
  void Add(WorkerState state, int32_t in_flight = 0) {
    Worker& worker = workers_.emplace_back();
    worker.state = state;
    worker.model = model_;
    worker.total_blocks = 100;
    worker.max_requests = 4;
    loads_.emplace_back().in_flight = in_flight;
  }
  // The numbers of the candidates; empty: none.
  std::vector<int> Found() const {
    RouteRequest request;
    request.model = model_.get();
    const auto found =
        FindCandidates(request, {std::make_shared<const std::vector<Worker>>(workers_), loads_});
    std::vector<int> numbers;
    if (const auto* ids = std::get_if<std::vector<WorkerId>>(&found)) {
      for (const WorkerId id : *ids) numbers.push_back(static_cast<int>(ToIndex(id)));
    }
    return numbers;
  }

  const std::shared_ptr<const Model> model_ = [] {
    auto model = std::make_shared<Model>();
    model->block_size = 16;
    return model;
  }();
  std::vector<Worker> workers_;
  std::vector<WorkerLoad> loads_;
};

TEST_F(CandidatesTest, SuspectsGetNothingWhileAReadyWorkerHasRoom) {
  Add(WorkerState::kSuspect);
  Add(WorkerState::kReady);
  EXPECT_EQ(Found(), (std::vector<int>{1}));
}

TEST_F(CandidatesTest, SuspectsAreBetterThanNone) {
  Add(WorkerState::kReady, 4);
  Add(WorkerState::kSuspect);
  Add(WorkerState::kSuspect, 4);
  Add(WorkerState::kDown);
  EXPECT_EQ(Found(), (std::vector<int>{1}));
}

}  // namespace
}  // namespace qanat::router
