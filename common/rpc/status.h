// absl::Status on the wire. grpc::Status is made nowhere else.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace qanat::rpc {

// `status` with its field, reason and retry hint (common/base/error.h) as BadRequest, ErrorInfo of domain
// "qanat" and RetryInfo. The text of INTERNAL, UNKNOWN and DATA_LOSS gives way to a fixed one: log it before.
grpc::Status ToGrpc(const absl::Status& status);

// The way back. Details of other domains, and such that do not parse, are left out. The message of a
// transport's own error may hold addresses: a server never hands it on as it is.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace qanat::rpc
