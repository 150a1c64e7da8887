#include "router/service/inference_service.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/api/generate.h"
#include "common/base/error.h"
#include "common/base/retry_after.h"
#include "common/base/status_macros.h"
#include "common/rpc/status.h"
#include "router/cluster/served_model.h"
#include "router/service/generate_call.h"

namespace qanat::router {
namespace {

// The model that is meant, and nothing wrong with the request.
absl::StatusOr<ServedModel> Check(const Cluster& cluster, const v1::TokenizeRequest& request) {
  QANAT_ASSIGN_OR_RETURN(ServedModel served, FindServedModel(cluster.Snapshot(), request.model()));
  QANAT_RETURN_IF_ERROR(api::ValidateTokenize(request, served.limits));
  return served;
}

absl::StatusOr<ServedModel> Check(const Cluster& cluster, const v1::DetokenizeRequest& request) {
  QANAT_ASSIGN_OR_RETURN(ServedModel served, FindServedModel(cluster.Snapshot(), request.model()));
  // A model may have more ids than its tokenizer names; those have no text.
  api::ServedModel limits = served.limits;
  limits.vocab_size = served.model->tokenizer->size();
  QANAT_RETURN_IF_ERROR(api::ValidateDetokenize(request, limits));
  return served;
}

// Of a request that was checked.
absl::Status Answer(const Model& model, const v1::TokenizeRequest& request, v1::TokenizeResponse& response) {
  QANAT_ASSIGN_OR_RETURN(const std::vector<TokenId> ids,
                         api::EncodePrompt(request, *model.tokenizer, model.chat_template.get()));
  response.mutable_token_ids()->Assign(ids.begin(), ids.end());
  return absl::OkStatus();
}

absl::Status Answer(const Model& model, const v1::DetokenizeRequest& request,
                    v1::DetokenizeResponse& response) {
  QANAT_ASSIGN_OR_RETURN(*response.mutable_text(), api::DecodeIds(request, *model.tokenizer));
  return absl::OkStatus();
}

// Checks at once what costs nothing, so that only what can be answered waits for the text pool; there the
// call is answered, unless nobody waits for it any more.
template <typename Request, typename Response>
grpc::ServerUnaryReactor* OnTextPool(const ServiceParts& parts, grpc::CallbackServerContext& context,
                                     const Request& request, Response& response) {
  grpc::ServerUnaryReactor* const reactor = context.DefaultReactor();
  absl::StatusOr<ServedModel> served = Check(parts.cluster, request);
  if (!served.ok()) {
    reactor->Finish(rpc::ToGrpc(served.status()));
    return reactor;
  }
  // gRPC keeps context, request and response until Finish.
  const auto answer = [reactor, model = std::move(served->model), &context, &request, &response] {
    const bool left = context.IsCancelled();
    reactor->Finish(
        rpc::ToGrpc(left ? absl::CancelledError("the caller left") : Answer(*model, request, response)));
  };
  if (!parts.text_pool.TryRun(answer, static_cast<int64_t>(request.ByteSizeLong()))) {
    reactor->Finish(rpc::ToGrpc(WithRetryAfter(
        WithReason(absl::ResourceExhaustedError("too many texts wait to be encoded"), "QUEUE_FULL"),
        kRetryAfter)));
  }
  return reactor;
}

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  return GenerateCall::Start(parts_, *context, *request);
}

grpc::ServerUnaryReactor* InferenceService::Tokenize(grpc::CallbackServerContext* context,
                                                     const v1::TokenizeRequest* request,
                                                     v1::TokenizeResponse* response) {
  return OnTextPool(parts_, *context, *request, *response);
}

grpc::ServerUnaryReactor* InferenceService::Detokenize(grpc::CallbackServerContext* context,
                                                       const v1::DetokenizeRequest* request,
                                                       v1::DetokenizeResponse* response) {
  return OnTextPool(parts_, *context, *request, *response);
}

}  // namespace qanat::router
