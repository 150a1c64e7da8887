// A picture of the cluster: which workers there are, what they serve and how busy they are. What a routing
// policy sees, and all it sees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/step_model.h"
#include "common/text/tokenizer.h"

namespace qanat::text {
class ChatTemplate;
}

namespace qanat::router {

// A worker's place in this router's list; given once, never reused.
enum class WorkerId : uint16_t {};

inline size_t ToIndex(WorkerId id) { return static_cast<size_t>(id); }

// What the index calls one worker's resident blocks, from one snapshot of its cache to the next.
enum class HolderId : uint16_t {};

enum class WorkerState : uint8_t {
  kConnecting,  // not reached yet
  kReady,       // takes requests
  kSuspect,     // connected, but silent or hung: gets what no ready worker has room for
  kDraining,    // finishes what it has and refuses what is new
  kDown,        // cannot be reached, or cannot be worked with; its link keeps trying
};
inline constexpr WorkerState kWorkerStates[] = {WorkerState::kConnecting, WorkerState::kReady,
                                                WorkerState::kSuspect, WorkerState::kDraining,
                                                WorkerState::kDown};

// "connecting", "ready", "suspect", "draining", "down".
std::string_view StateName(WorkerState state);

// A model that workers serve. Equal id and fingerprint, equal models: one object for all its workers.
struct Model {
  std::string id;  // what callers write
  std::string fingerprint;
  std::string architecture;
  std::string quantization;
  int32_t context_length = 0;
  int32_t vocab_size = 0;
  int32_t block_size = 0;
  // Shared: a request that is being encoded keeps it although the model's last worker has left.
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatTemplate> chat_template;  // null: none, or not understood
};

// What seldom changes of one worker.
struct Worker {
  std::string address;  // HOST:PORT; its name, too
  WorkerState state = WorkerState::kConnecting;
  // Shared by the model's workers and the requests under way. Null until the worker was ready once.
  std::shared_ptr<const Model> model;
  uint64_t epoch = 0;        // drawn at the worker's start
  int32_t total_blocks = 0;  // of its pool
  int32_t max_requests = 0;  // running and waiting
  std::string numerics_id;   // equal ids give equal bits
  // Its blocks in the index; unset while they are not known.
  std::optional<HolderId> holder;
};

// What changes with every request.
struct WorkerLoad {
  int32_t in_flight = 0;  // open calls of this router to the worker
  // The number of the latest dispatch to it, counted over all workers: who was used longest ago has the
  // lowest.
  uint64_t last_dispatch = 0;  // 0: never

  // As the worker told last, with what this router has sent it since and it did not know of.
  int32_t running = 0;
  int32_t waiting = 0;
  int64_t queued_tokens = 0;   // to be computed before a new request's first token
  int64_t context_tokens = 0;  // that the running read in a step
  int64_t free_blocks = 0;     // unreferenced, holding nothing of use
  int64_t cached_blocks = 0;   // unreferenced, with contents that a request may hit
  StepModel step_model;        // all 0: not known yet
};

// What: the cluster at one moment. Owns a share of the picture: copies are cheap. Threads: immutable, any.
// Invariant: (*workers) and loads are parallel, indexed by WorkerId.
struct ClusterSnapshot {
  // Shared by all snapshots between two changes of membership. Never null.
  std::shared_ptr<const std::vector<Worker>> workers = std::make_shared<const std::vector<Worker>>();
  std::vector<WorkerLoad> loads;

  size_t size() const { return loads.size(); }
  const Worker& worker(WorkerId id) const { return (*workers)[ToIndex(id)]; }
  const WorkerLoad& load(WorkerId id) const { return loads[ToIndex(id)]; }
};

// The models that workers serve, by id; where no worker serves any, those that workers served.
std::vector<std::shared_ptr<const Model>> ModelsOf(const ClusterSnapshot& snapshot);
// The model of this id that workers serve, or else served; null: none ever did.
std::shared_ptr<const Model> FindModel(const ClusterSnapshot& snapshot, std::string_view id);

}  // namespace qanat::router
