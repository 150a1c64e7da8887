// What a caller is told of an end.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "worker/engine/request.h"

namespace qanat::engine {

// OK for kStop and kLength.
absl::Status StatusOf(EndReason reason);

// DEADLINE_EXCEEDED, reason DEADLINE: every one that a worker tells is made here.
absl::Status DeadlineExceeded(std::string_view message);
// The same: it passed, and there is no more to say.
absl::Status DeadlinePassed();

}  // namespace qanat::engine
