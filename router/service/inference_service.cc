#include "router/service/inference_service.h"

#include <utility>
#include <vector>

#include "common/api/generate.h"
#include "common/base/error.h"
#include "common/base/retry_after.h"
#include "common/base/status_macros.h"
#include "common/rpc/status.h"
#include "router/cluster/served_model.h"
#include "router/service/generate_call.h"

namespace qanat::router {
namespace {

absl::Status TokenizeText(const Cluster& cluster, const v1::TokenizeRequest& request,
                          v1::TokenizeResponse& response) {
  QANAT_ASSIGN_OR_RETURN(const ServedModel served, FindServedModel(cluster.Snapshot(), request.model()));
  QANAT_RETURN_IF_ERROR(api::ValidateTokenize(request, served.limits));
  QANAT_ASSIGN_OR_RETURN(
      const std::vector<TokenId> ids,
      api::EncodePrompt(request, *served.model->tokenizer, served.model->chat_template.get()));
  response.mutable_token_ids()->Assign(ids.begin(), ids.end());
  return absl::OkStatus();
}

absl::Status DetokenizeIds(const Cluster& cluster, const v1::DetokenizeRequest& request,
                           v1::DetokenizeResponse& response) {
  QANAT_ASSIGN_OR_RETURN(const ServedModel served, FindServedModel(cluster.Snapshot(), request.model()));
  // A model may have more ids than its tokenizer names; those have no text.
  api::ServedModel limits = served.limits;
  limits.vocab_size = served.model->tokenizer->size();
  QANAT_RETURN_IF_ERROR(api::ValidateDetokenize(request, limits));
  const std::vector<TokenId> ids(request.token_ids().begin(), request.token_ids().end());
  response.set_text(served.model->tokenizer->Decode(ids));
  return absl::OkStatus();
}

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  return GenerateCall::Start(parts_, *context, *request);
}

grpc::ServerUnaryReactor* InferenceService::Tokenize(grpc::CallbackServerContext* context,
                                                     const v1::TokenizeRequest* request,
                                                     v1::TokenizeResponse* response) {
  return OnTextPool(*context,
                    [this, request, response] { return TokenizeText(parts_.cluster, *request, *response); });
}

grpc::ServerUnaryReactor* InferenceService::Detokenize(grpc::CallbackServerContext* context,
                                                       const v1::DetokenizeRequest* request,
                                                       v1::DetokenizeResponse* response) {
  return OnTextPool(*context,
                    [this, request, response] { return DetokenizeIds(parts_.cluster, *request, *response); });
}

grpc::ServerUnaryReactor* InferenceService::OnTextPool(grpc::CallbackServerContext& context,
                                                       std::function<absl::Status()> work) {
  grpc::ServerUnaryReactor* const reactor = context.DefaultReactor();
  // gRPC keeps request and response until Finish.
  if (!parts_.text_pool.TryRun([reactor, work = std::move(work)] { reactor->Finish(rpc::ToGrpc(work())); })) {
    reactor->Finish(rpc::ToGrpc(WithRetryAfter(
        WithReason(absl::ResourceExhaustedError("too many texts wait to be encoded"), "QUEUE_FULL"),
        kRetryAfter)));
  }
  return reactor;
}

}  // namespace qanat::router
