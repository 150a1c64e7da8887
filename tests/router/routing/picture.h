// Clusters and prompts for tests of policies.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "router/routing/policy.h"

namespace qanat::router {

inline std::shared_ptr<const Model> MakeModel(const std::string& id) {
  auto model = std::make_shared<Model>();
  model->id = id;
  model->block_size = 16;
  return model;
}

// A cluster written down worker by worker.
class Picture {
 public:
  explicit Picture(std::shared_ptr<const Model> model) : model_(std::move(model)) {}

  Picture& Add(int in_flight, uint64_t last_dispatch, WorkerState state = WorkerState::kReady) {
    Worker worker;
    worker.address = "worker-" + std::to_string(workers_.size()) + ":1";
    worker.state = state;
    worker.model = model_;
    worker.total_blocks = 100;
    worker.max_requests = 1000;
    workers_.push_back(worker);
    WorkerLoad load;
    load.in_flight = in_flight;
    load.last_dispatch = last_dispatch;
    loads_.push_back(load);
    return *this;
  }
  Worker& last() { return workers_.back(); }
  WorkerLoad& last_load() { return loads_.back(); }
  Worker& worker(size_t i) { return workers_[i]; }
  WorkerLoad& load(size_t i) { return loads_[i]; }

  ClusterSnapshot Take() const { return {std::make_shared<const std::vector<Worker>>(workers_), loads_}; }

 private:
  std::shared_ptr<const Model> model_;
  std::vector<Worker> workers_;
  std::vector<WorkerLoad> loads_;
};

// The index of the worker in a Route; -1 for Wait, -2 for Reject.
inline int Chosen(const Decision& decision) {
  if (std::holds_alternative<Wait>(decision)) return -1;
  if (std::holds_alternative<Reject>(decision)) return -2;
  return static_cast<int>(ToIndex(std::get<Route>(decision).worker));
}

// Hashes as of a prompt of its own for each `name`.
inline std::vector<hash::BlockHash> PromptHashes(uint64_t name, size_t blocks) {
  std::vector<hash::BlockHash> hashes(blocks);
  for (size_t i = 0; i < blocks; ++i) hashes[i] = hash::Mix(name * 1'000'003 + i);
  return hashes;
}

// An index that the workers of a picture hold blocks in.
class Cache {
 public:
  // Worker `i` of the picture has the first `depth` blocks of the prompt.
  void Hold(Picture& picture, size_t i, const std::vector<hash::BlockHash>& prompt, size_t depth) {
    if (!picture.worker(i).holder.has_value()) picture.worker(i).holder = index_.Open(100'000);
    index_.Add(*picture.worker(i).holder, absl::MakeSpan(prompt).first(depth));
  }
  const Index& index() const { return index_; }

 private:
  Index index_;
};

}  // namespace qanat::router
