// Fields that a newer client may send and this build has never heard of.
#pragma once

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace qanat::api {

// OK, or UNIMPLEMENTED naming the number and the path of the first unknown field in `message` or in any
// message inside it: ("chat.messages[2].99"). Nothing a client asks for is ignored in silence.
absl::Status CheckNoUnknownFields(const google::protobuf::Message& message);

}  // namespace qanat::api
