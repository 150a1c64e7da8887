// A model's vocabulary on the wire: what a worker hands to a router that has no model file.
#pragma once

#include "absl/status/statusor.h"
#include "common/text/tokenizer.h"
#include "qanat/cluster/v1/worker.pb.h"

namespace qanat::api {

cluster::v1::Tokenizer ToProto(const text::Vocabulary& vocabulary);

// INVALID_ARGUMENT when the parallel lists differ in length or a kind is none of GGUF's. Everything else is
// checked by text::Tokenizer::Create.
absl::StatusOr<text::Vocabulary> FromProto(const cluster::v1::Tokenizer& proto);

}  // namespace qanat::api
