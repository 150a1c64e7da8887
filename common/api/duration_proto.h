// google.protobuf.Duration and ours.
#pragma once

#include "common/base/clock.h"
#include "google/protobuf/duration.pb.h"

namespace qanat::api {

google::protobuf::Duration ToProto(Duration duration);

// Any message is allowed in: what does not fit 64 bits of nanoseconds (292 years) is clamped.
Duration FromProto(const google::protobuf::Duration& duration);

}  // namespace qanat::api
