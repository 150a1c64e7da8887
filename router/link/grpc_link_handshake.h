// What a gRPC link asks a worker before the first call.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/client_context.h"
#include "qanat/cluster/v1/worker.grpc.pb.h"
#include "router/link/tokenizer_store.h"
#include "router/link/worker_link.h"

namespace qanat::router {

// Runs one call with a context of its own, which someone may cancel meanwhile.
using RunCall = std::function<absl::Status(const std::function<absl::Status(grpc::ClientContext&)>& call)>;

// GetInfo, and GetTokenizer unless `store` has the model's. Blocks. Errors: what the calls ended with, as
// text for our log; DATA_LOSS when the tokenizer is not what the worker sent; INVALID_ARGUMENT when no worker
// of ours would say such things.
absl::StatusOr<ReadyWorker> AskWorker(cluster::v1::WorkerService::Stub& stub, TokenizerStore& store,
                                      const RunCall& run_call);

}  // namespace qanat::router
