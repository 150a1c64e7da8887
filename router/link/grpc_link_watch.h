// One Watch stream of a gRPC link.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "grpcpp/client_context.h"
#include "qanat/cluster/v1/worker.grpc.pb.h"
#include "router/link/worker_link.h"

namespace qanat::router {

struct WatchEnd {
  WatchVerdict verdict;  // kContinue: the stream ended
  absl::Status status;   // then, with this; the observer was told
};

// Subscribes from where the observer is and hands it frame after frame, until it wants no more of them or the
// stream ends. Blocks; cancelling `context` ends it.
WatchEnd FollowWatch(cluster::v1::WorkerService::Stub& stub, grpc::ClientContext& context, uint64_t router_id,
                     LinkObserver& observer);

}  // namespace qanat::router
