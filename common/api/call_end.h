// An absl::Status on its way through a Session, and back.
#pragma once

#include "absl/status/status.h"
#include "qanat/cluster/v1/worker.pb.h"

namespace qanat::api {

// PublicError(status) (common/base/error.h) as a message.
cluster::v1::CallEnd ToCallEnd(const absl::Status& status);
// A code that this build does not know becomes UNKNOWN.
absl::Status FromCallEnd(const cluster::v1::CallEnd& end);

}  // namespace qanat::api
