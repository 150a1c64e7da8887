// What a worker serves to the routers of its cluster.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "grpcpp/support/server_callback.h"
#include "qanat/cluster/v1/worker.grpc.pb.h"
#include "worker/service/service_context.h"

namespace qanat::service {

class SessionReactor;

// What: Session, GetInfo and GetTokenizer. Without a cluster token a Session is for peers on this machine
// only, since it is believed what it says of tenants. Owns the serialized tokenizer; `context` outlives the
// server. Threads: gRPC's, CloseSessions any. Errors: as statuses of the calls.
class WorkerService final : public cluster::v1::WorkerService::CallbackService {
 public:
  explicit WorkerService(const ServiceContext& context);

  grpc::ServerBidiReactor<cluster::v1::SessionRequest, cluster::v1::SessionResponse>* Session(
      grpc::CallbackServerContext* call) override EXCLUDES(mu_);
  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* call,
                                    const cluster::v1::GetInfoRequest* request,
                                    cluster::v1::GetInfoResponse* response) override;
  grpc::ServerWriteReactor<cluster::v1::GetTokenizerResponse>* GetTokenizer(
      grpc::CallbackServerContext* call, const cluster::v1::GetTokenizerRequest* request) override;

  // Ends every Session, now and from now on: the worker is about to go.
  void CloseSessions() EXCLUDES(mu_);

 private:
  const ServiceContext& context_;
  const std::string tokenizer_;
  const std::string tokenizer_sha256_;

  Mutex mu_;
  std::vector<std::weak_ptr<SessionReactor>> sessions_ GUARDED_BY(mu_);
  bool closing_ GUARDED_BY(mu_) = false;
};

}  // namespace qanat::service
