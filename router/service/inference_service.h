// qanat.v1.InferenceService of a router.
#pragma once

#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "qanat/v1/inference.grpc.pb.h"
#include "router/service/service_parts.h"

namespace qanat::router {

// What: the public face. Owns nothing; every part outlives it, and it outlives its server. Threads: gRPC's.
class InferenceService final : public v1::InferenceService::CallbackService {
 public:
  explicit InferenceService(const ServiceParts& parts) : parts_(parts) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(grpc::CallbackServerContext* context,
                                                           const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override;

 private:
  const ServiceParts parts_;
};

}  // namespace qanat::router
