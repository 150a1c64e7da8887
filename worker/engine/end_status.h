// What a caller is told of an end.
#pragma once

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "worker/engine/request.h"

namespace qanat::engine {

// OK for kStop and kLength.
absl::Status StatusOf(EndReason reason);

// DEADLINE_EXCEEDED, reason DEADLINE: it had passed before there was anything to compute.
absl::Status DeadlinePassed();

// CANCELLED, reason READER_STALLED: the reader took nothing for `limit`.
absl::Status ReaderStalled(Duration limit);

}  // namespace qanat::engine
