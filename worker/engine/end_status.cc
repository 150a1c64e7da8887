#include "worker/engine/end_status.h"

#include "common/base/error.h"

namespace qanat::engine {

absl::Status StatusOf(EndReason reason) {
  switch (reason) {
    case EndReason::kStop:
    case EndReason::kLength:
      return absl::OkStatus();
    case EndReason::kCancelled:
      return absl::CancelledError("the request was cancelled");
    case EndReason::kDeadline:
      return DeadlineExceeded("the deadline passed before the answer was complete");
    case EndReason::kError:
      break;
  }
  return absl::InternalError("the computation of this request failed");
}

absl::Status DeadlinePassed() { return DeadlineExceeded("the deadline has passed"); }

}  // namespace qanat::engine
