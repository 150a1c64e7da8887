// From a validated request to what the engine and the answer take.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "common/api/generate.h"
#include "common/base/clock.h"
#include "common/hash/block_hash.h"
#include "qanat/v1/inference.pb.h"
#include "worker/engine/request.h"
#include "worker/service/answer.h"
#include "worker/service/service_context.h"

namespace qanat::service {

// What the transport knows of a call.
struct Call {
  std::shared_ptr<const v1::GenerateRequest> request;
  hash::Namespace cache_namespace{};
  std::optional<Time> deadline;
  bool may_redirect = false;  // a router asks, which may know of another worker
};

// Encodes the prompt, which may be costly, and checks what needs its tokens. Without the sink. REQUIRES:
// `params` are ValidateGenerate's of the call's request.
absl::StatusOr<engine::Request> BuildRequest(const ServiceContext& context, const Call& call,
                                             const api::GenerateParams& params);

AnswerOptions AnswerOptionsOf(const api::GenerateParams& params);

}  // namespace qanat::service
