// What ends when a worker goes.
#pragma once

#include "absl/status/status.h"

namespace qanat::service {

// A stream of ours to a router.
class ClusterStream {
 public:
  virtual ~ClusterStream() = default;
  // Ends it with `status`. The first call counts. Any thread.
  virtual void Close(absl::Status status) = 0;
};

}  // namespace qanat::service
