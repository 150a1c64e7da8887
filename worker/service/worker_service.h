// What a worker serves to the routers of its cluster.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "grpcpp/support/server_callback.h"
#include "qanat/cluster/v1/worker.grpc.pb.h"
#include "worker/service/cluster_stream.h"
#include "worker/service/service_context.h"

namespace qanat::service {

// What: Session, Watch, GetInfo and GetTokenizer. Without a cluster token Session and Watch are for peers on
// this machine only: a Session is believed what it says of tenants, and a Watch tells of everybody's prompts.
// Owns the serialized tokenizer; `context` outlives the server. Threads: gRPC's, CloseStreams any. Errors: as
// statuses of the calls.
class WorkerService final : public cluster::v1::WorkerService::CallbackService {
 public:
  // Calls of GetTokenizer at once; more are told to come again. A router makes one a model.
  static constexpr size_t kMaxFetches = 64;

  explicit WorkerService(const ServiceContext& context);

  grpc::ServerBidiReactor<cluster::v1::SessionRequest, cluster::v1::SessionResponse>* Session(
      grpc::CallbackServerContext* call) override EXCLUDES(mu_);
  grpc::ServerWriteReactor<cluster::v1::WatchResponse>* Watch(
      grpc::CallbackServerContext* call, const cluster::v1::WatchRequest* request) override EXCLUDES(mu_);
  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* call,
                                    const cluster::v1::GetInfoRequest* request,
                                    cluster::v1::GetInfoResponse* response) override;
  grpc::ServerWriteReactor<cluster::v1::GetTokenizerResponse>* GetTokenizer(
      grpc::CallbackServerContext* call, const cluster::v1::GetTokenizerRequest* request) override;

  // Ends every Session, Watch and GetTokenizer, now and from now on: the worker is about to go.
  void CloseStreams() EXCLUDES(mu_);

 private:
  using Streams = std::vector<std::weak_ptr<ClusterStream>>;

  // OK, and the stream is closed with the others; or why it is not served.
  absl::Status Admit(const grpc::CallbackServerContext& call, std::weak_ptr<ClusterStream> stream)
      EXCLUDES(mu_);
  // The same, for a GetTokenizer.
  absl::Status AdmitFetch(std::weak_ptr<ClusterStream> stream) EXCLUDES(mu_);

  const ServiceContext& context_;
  const std::string tokenizer_;
  const std::string tokenizer_sha256_;

  Mutex mu_;
  Streams streams_ GUARDED_BY(mu_);  // Sessions and Watches
  Streams fetches_ GUARDED_BY(mu_);  // of the tokenizer; at most kMaxFetches
  bool closing_ GUARDED_BY(mu_) = false;
};

}  // namespace qanat::service
