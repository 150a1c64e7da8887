// The public API that a worker serves for itself, a call a request.
#pragma once

#include "grpcpp/support/server_callback.h"
#include "qanat/v1/inference.grpc.pb.h"
#include "qanat/v1/model.grpc.pb.h"
#include "worker/service/service_context.h"

namespace qanat::service {

// What: Generate, Tokenize and Detokenize over one engine. Owns nothing; `context` outlives the server.
// Threads: gRPC's; reactions only start work that runs elsewhere. Errors: as statuses of the calls.
class InferenceService final : public v1::InferenceService::CallbackService {
 public:
  explicit InferenceService(const ServiceContext& context) : context_(context) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(grpc::CallbackServerContext* call,
                                                           const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* call, const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* call,
                                       const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override;

 private:
  const ServiceContext& context_;
};

// The one model that is served.
class ModelService final : public v1::ModelService::CallbackService {
 public:
  explicit ModelService(const ServiceContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* call,
                                       const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override;

 private:
  const ServiceContext& context_;
};

}  // namespace qanat::service
