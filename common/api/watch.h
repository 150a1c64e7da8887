// What a worker tells of its cache and its load, as plain data.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/step_model.h"
#include "common/hash/block_hash.h"
#include "common/hash/residency.h"
#include "qanat/cluster/v1/worker.pb.h"

namespace qanat::api {

using hash::Residency;

struct SnapshotBegin {
  int64_t resident_count = 0;
};
struct SnapshotChunk {
  std::vector<hash::BlockHash> stored;
};
struct SnapshotEnd {
  Residency residency;
};

// The net change from the state before.
struct Delta {
  std::vector<hash::BlockHash> stored;   // parents before their children
  std::vector<hash::BlockHash> removed;  // children before their parents
  Residency residency;                   // after the change
};

struct Load {
  uint64_t load_version = 0;  // grows with every request that comes or ends
  int32_t running = 0;
  int32_t waiting = 0;
  int64_t waiting_tokens = 0;  // prompt tokens of the waiting that no cached block covers
  int64_t prefill_tokens = 0;  // of the running: known, without keys and values yet
  int64_t context_tokens = 0;  // that the running read in a step
  int64_t total_blocks = 0;
  int64_t free_blocks = 0;    // unreferenced, holding nothing of use
  int64_t cached_blocks = 0;  // unreferenced, with contents that a request may hit
  bool draining = false;
  uint64_t step_id = 0;  // steps begun
  Duration step_age{};   // of the present step; 0 between steps
  StepModel step_model;
  Residency residency;  // in the state of the frame
};

// One message of a Watch. proto/qanat/cluster/v1/worker.proto says what a state is.
struct WatchFrame {
  uint64_t epoch = 0;
  uint64_t seq = 0;
  std::variant<SnapshotBegin, SnapshotChunk, SnapshotEnd, Delta, Load> body;
};

cluster::v1::WatchResponse ToProto(const WatchFrame& frame);
// INVALID_ARGUMENT for a frame without a body, or with numbers that no worker can have.
absl::StatusOr<WatchFrame> FromProto(const cluster::v1::WatchResponse& proto);

}  // namespace qanat::api
