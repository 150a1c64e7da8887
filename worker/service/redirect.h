// Refusals that another worker may not repeat.
#pragma once

#include "absl/status/status.h"
#include "qanat/cluster/v1/worker.pb.h"

namespace qanat::service {

// What a router is told of a call that was refused with `status` before it was accepted: to try another
// worker, or (unspecified) that none would take it.
cluster::v1::Redirect RedirectOf(const absl::Status& refusal);

}  // namespace qanat::service
