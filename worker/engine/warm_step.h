// A step before anybody is served.
#pragma once

#include "absl/status/status.h"
#include "worker/engine/model_runner.h"

namespace qanat::engine {

// Computes one token in block 0 and draws the next, so that the first caller meets a device that has run:
// weights are in memory, threads are up. It goes past the engine: no count, no cached block and no step of
// the model's tells of it. INTERNAL: the device computes nothing of use. REQUIRES: no step is in flight,
// nobody uses block 0.
absl::Status WarmUp(ModelRunner& runner);

}  // namespace qanat::engine
