// What a caller is told of an end.
#pragma once

#include "absl/status/status.h"
#include "worker/engine/request.h"

namespace qanat::engine {

// OK for kStop and kLength.
absl::Status StatusOf(EndReason reason);

// DEADLINE_EXCEEDED: it passed, and there is no more to say.
absl::Status DeadlinePassed();

}  // namespace qanat::engine
