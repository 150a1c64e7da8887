#include "worker/service/worker_service.h"

#include <algorithm>
#include <utility>

#include "common/api/tokenizer_proto.h"
#include "common/api/worker_info.h"
#include "common/base/error.h"
#include "common/hash/sha256.h"
#include "common/rpc/options.h"
#include "common/rpc/status.h"
#include "grpcpp/server_context.h"
#include "worker/service/session_reactor.h"

namespace qanat::service {
namespace {

constexpr size_t kChunkBytes = 256 << 10;

absl::Status Draining() { return WithReason(absl::UnavailableError("the worker is draining"), "DRAINING"); }

// A Session that is refused. Owns itself.
class RefusedSession final
    : public grpc::ServerBidiReactor<cluster::v1::SessionRequest, cluster::v1::SessionResponse> {
 public:
  explicit RefusedSession(const absl::Status& status) { Finish(rpc::ToGrpc(status)); }
  void OnDone() override { delete this; }
};

// Sends bytes in chunks, the digest with the last one. Owns itself; the bytes outlive it.
class TokenizerReactor final : public grpc::ServerWriteReactor<cluster::v1::GetTokenizerResponse> {
 public:
  TokenizerReactor(std::string_view bytes, const std::string& sha256) : rest_(bytes), sha256_(sha256) {
    Next();
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(rpc::ToGrpc(absl::CancelledError("the caller left")));
    Next();
  }
  void OnDone() override { delete this; }

 private:
  void Next() {
    const std::string_view chunk = rest_.substr(0, kChunkBytes);
    rest_.remove_prefix(chunk.size());
    message_.set_chunk(std::string(chunk));
    if (!rest_.empty()) return StartWrite(&message_);
    message_.set_sha256(sha256_);
    StartWriteAndFinish(&message_, grpc::WriteOptions(), rpc::ToGrpc(absl::OkStatus()));
  }

  std::string_view rest_;
  const std::string& sha256_;
  cluster::v1::GetTokenizerResponse message_;
};

}  // namespace

WorkerService::WorkerService(const ServiceContext& context)
    : context_(context),
      tokenizer_(api::ToProto(context.tokenizer.vocabulary()).SerializeAsString()),
      tokenizer_sha256_(hash::Sha256(tokenizer_)) {}

grpc::ServerBidiReactor<cluster::v1::SessionRequest, cluster::v1::SessionResponse>* WorkerService::Session(
    grpc::CallbackServerContext* call) {
  if (!rpc::IsLoopbackPeer(call->peer())) {
    return new RefusedSession(WithReason(
        absl::UnauthenticatedError("without a cluster token a Session is for peers on this machine"),
        "NO_CLUSTER_TOKEN"));
  }
  const auto reactor = std::make_shared<SessionReactor>(context_, *call);
  {
    MutexLock lock(mu_);
    if (closing_) return new RefusedSession(Draining());
    sessions_.erase(
        std::remove_if(sessions_.begin(), sessions_.end(), [](const auto& s) { return s.expired(); }),
        sessions_.end());
    sessions_.push_back(reactor);
  }
  reactor->Begin();
  return reactor.get();
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
    grpc::CallbackServerContext*, const cluster::v1::GetTokenizerRequest*) {
  return new TokenizerReactor(tokenizer_, tokenizer_sha256_);
}

void WorkerService::CloseSessions() {
  std::vector<std::shared_ptr<SessionReactor>> sessions;
  {
    MutexLock lock(mu_);
    closing_ = true;
    for (const auto& weak : sessions_) {
      if (auto session = weak.lock()) sessions.push_back(std::move(session));
    }
  }
  for (const auto& session : sessions) session->Close(Draining());
}

}  // namespace qanat::service
