#include "worker/service/inference_service.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/api/generate.h"
#include "common/api/limits.h"
#include "common/api/unknown_fields.h"
#include "common/base/error.h"
#include "common/base/retry_after.h"
#include "common/base/status_macros.h"
#include "common/rpc/options.h"
#include "common/rpc/status.h"
#include "grpcpp/server_context.h"
#include "worker/service/generate_reactor.h"

namespace qanat::service {
namespace {

// Answers the call with what `compute` returns, on `pool`. `request` is kept until then.
grpc::ServerUnaryReactor* AnswerOn(TaskPool& pool, grpc::CallbackServerContext& call,
                                   const google::protobuf::Message& request,
                                   std::function<absl::Status()> compute) {
  grpc::ServerUnaryReactor* reactor = call.DefaultReactor();
  const auto bytes = static_cast<int64_t>(request.ByteSizeLong());
  if (!pool.TryRun([reactor, compute = std::move(compute)] { reactor->Finish(rpc::ToGrpc(compute())); },
                   bytes)) {
    reactor->Finish(rpc::ToGrpc(WithRetryAfter(
        WithReason(absl::ResourceExhaustedError("too many texts wait to be encoded"), "QUEUE_FULL"),
        kRetryAfter)));
  }
  return reactor;
}

// A token has at least a byte of text, and at most 3 on the wire: vocabularies have less than 2^21.
static_assert(3 * api::kMaxPromptBytes < rpc::kMaxMessageBytes, "an answer could not be sent");

absl::Status TokenizeNow(const ServiceContext& context, const v1::TokenizeRequest& request,
                         v1::TokenizeResponse& response) {
  QANAT_RETURN_IF_ERROR(api::ValidateTokenize(request, context.info.model));
  QANAT_ASSIGN_OR_RETURN(const std::vector<TokenId> ids,
                         api::EncodePrompt(request, context.tokenizer, context.chat_template));
  *response.mutable_token_ids() = {ids.begin(), ids.end()};
  return absl::OkStatus();
}

absl::Status DetokenizeNow(const ServiceContext& context, const v1::DetokenizeRequest& request,
                           v1::DetokenizeResponse& response) {
  QANAT_RETURN_IF_ERROR(api::ValidateDetokenize(request, context.info.model));
  QANAT_ASSIGN_OR_RETURN(*response.mutable_text(), api::DecodeIds(request, context.tokenizer));
  return absl::OkStatus();
}

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Generate(
    grpc::CallbackServerContext* call, const v1::GenerateRequest* request) {
  const auto reactor = std::make_shared<GenerateReactor>(context_, *call);
  reactor->Begin(*request);
  return reactor.get();
}

grpc::ServerUnaryReactor* InferenceService::Tokenize(grpc::CallbackServerContext* call,
                                                     const v1::TokenizeRequest* request,
                                                     v1::TokenizeResponse* response) {
  return AnswerOn(context_.text_pool, *call, *request,
                  [this, request, response] { return TokenizeNow(context_, *request, *response); });
}

grpc::ServerUnaryReactor* InferenceService::Detokenize(grpc::CallbackServerContext* call,
                                                       const v1::DetokenizeRequest* request,
                                                       v1::DetokenizeResponse* response) {
  return AnswerOn(context_.text_pool, *call, *request,
                  [this, request, response] { return DetokenizeNow(context_, *request, *response); });
}

grpc::ServerUnaryReactor* ModelService::ListModels(grpc::CallbackServerContext* call,
                                                   const v1::ListModelsRequest* request,
                                                   v1::ListModelsResponse* response) {
  const absl::Status status = api::CheckNoUnknownFields(*request);
  if (status.ok()) *response->add_models() = api::ToModel(context_.info);
  grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
  reactor->Finish(rpc::ToGrpc(status));
  return reactor;
}

}  // namespace qanat::service
