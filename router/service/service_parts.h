// What the router's services are made of.
#pragma once

#include <cstdint>
#include <functional>

#include "common/base/clock.h"
#include "common/base/task_pool.h"
#include "common/hash/block_hash.h"
#include "common/rpc/stall_sweeper.h"
#include "router/admission/admission.h"
#include "router/cluster/cluster.h"
#include "router/forward/forwarder.h"
#include "router/service/router_metrics.h"

namespace qanat::router {

// Everything outlives the services and their calls. Nothing here blocks.
struct ServiceParts {
  Cluster& cluster;
  Admission& admission;
  Forwarder& forwarder;
  TaskPool& text_pool;  // encoding and decoding; never in a gRPC reaction
  rpc::StallSweeper& stall_sweeper;
  RouterMetrics& metrics;
  const Clock& clock;
  hash::HashKey hash_key;               // of the namespaces
  std::function<uint64_t()> draw_seed;  // any thread
};

}  // namespace qanat::router
