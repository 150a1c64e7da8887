#include "worker/service/worker_service.h"

#include <algorithm>
#include <utility>

#include "common/api/tokenizer_proto.h"
#include "common/api/worker_info.h"
#include "common/base/error.h"
#include "common/base/retry_after.h"
#include "common/hash/sha256.h"
#include "common/rpc/options.h"
#include "common/rpc/status.h"
#include "grpcpp/server_context.h"
#include "worker/service/session_reactor.h"
#include "worker/service/tokenizer_reactor.h"
#include "worker/service/watch_reactor.h"

namespace qanat::service {
namespace {

absl::Status Draining() { return WithReason(absl::UnavailableError("the worker is draining"), "DRAINING"); }

// A stream that is refused. Owns itself.
template <typename Reactor>
class Refused final : public Reactor {
 public:
  explicit Refused(const absl::Status& status) { this->Finish(rpc::ToGrpc(status)); }
  void OnDone() override { delete this; }
};

void DropEnded(std::vector<std::weak_ptr<ClusterStream>>& streams) {
  streams.erase(std::remove_if(streams.begin(), streams.end(), [](const auto& s) { return s.expired(); }),
                streams.end());
}

absl::Status TooManyFetch() {
  return WithRetryAfter(
      WithReason(absl::ResourceExhaustedError("too many fetch the tokenizer at once"), "QUEUE_FULL"),
      kRetryAfter);
}

}  // namespace

WorkerService::WorkerService(const ServiceContext& context)
    : context_(context),
      tokenizer_(api::ToProto(context.tokenizer.vocabulary()).SerializeAsString()),
      tokenizer_sha256_(hash::Sha256(tokenizer_)) {}

grpc::ServerBidiReactor<cluster::v1::SessionRequest, cluster::v1::SessionResponse>* WorkerService::Session(
    grpc::CallbackServerContext* call) {
  const auto reactor = std::make_shared<SessionReactor>(context_, *call);
  if (const absl::Status status = Admit(*call, reactor); !status.ok()) {
    return new Refused<grpc::ServerBidiReactor<cluster::v1::SessionRequest, cluster::v1::SessionResponse>>(
        status);
  }
  reactor->Begin();
  return reactor.get();
}

grpc::ServerWriteReactor<cluster::v1::WatchResponse>* WorkerService::Watch(
    grpc::CallbackServerContext* call, const cluster::v1::WatchRequest* request) {
  const auto reactor = std::make_shared<WatchReactor>(context_, *call);
  if (const absl::Status status = Admit(*call, reactor); !status.ok()) {
    return new Refused<grpc::ServerWriteReactor<cluster::v1::WatchResponse>>(status);
  }
  reactor->Begin(*request);
  return reactor.get();
}

absl::Status WorkerService::Admit(const grpc::CallbackServerContext& call,
                                  std::weak_ptr<ClusterStream> stream) {
  if (!rpc::IsLoopbackPeer(call.peer())) {
    return WithReason(
        absl::UnauthenticatedError("without a cluster token this stream is for peers on this machine"),
        "NO_CLUSTER_TOKEN");
  }
  MutexLock lock(mu_);
  if (closing_) return Draining();
  DropEnded(streams_);
  streams_.push_back(std::move(stream));
  return absl::OkStatus();
}

absl::Status WorkerService::AdmitFetch(std::weak_ptr<ClusterStream> stream) {
  MutexLock lock(mu_);
  if (closing_) return Draining();
  DropEnded(fetches_);
  if (fetches_.size() >= kMaxFetches) return TooManyFetch();
  fetches_.push_back(std::move(stream));
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* WorkerService::GetInfo(grpc::CallbackServerContext* call,
                                                 const cluster::v1::GetInfoRequest*,
                                                 cluster::v1::GetInfoResponse* response) {
  *response = api::ToProto(context_.info);
  grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
  reactor->Finish(rpc::ToGrpc(absl::OkStatus()));
  return reactor;
}

grpc::ServerWriteReactor<cluster::v1::GetTokenizerResponse>* WorkerService::GetTokenizer(
    grpc::CallbackServerContext* call, const cluster::v1::GetTokenizerRequest*) {
  const auto reactor = std::make_shared<TokenizerReactor>(context_, *call, tokenizer_, tokenizer_sha256_);
  if (const absl::Status status = AdmitFetch(reactor); !status.ok()) {
    return new Refused<grpc::ServerWriteReactor<cluster::v1::GetTokenizerResponse>>(status);
  }
  reactor->Begin();
  return reactor.get();
}

void WorkerService::CloseStreams() {
  std::vector<std::shared_ptr<ClusterStream>> streams;
  {
    MutexLock lock(mu_);
    closing_ = true;
    for (const Streams* some : {&streams_, &fetches_}) {
      for (const auto& weak : *some) {
        if (auto stream = weak.lock()) streams.push_back(std::move(stream));
      }
    }
  }
  for (const auto& stream : streams) stream->Close(Draining());
}

}  // namespace qanat::service
