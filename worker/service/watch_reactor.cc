#include "worker/service/watch_reactor.h"

#include <utility>

#include "common/api/watch.h"
#include "common/base/log.h"
#include "common/rpc/status.h"
#include "grpcpp/server_context.h"
#include "worker/engine/end_status.h"
#include "worker/service/generation.h"

namespace qanat::service {

WatchReactor::WatchReactor(const ServiceContext& context, grpc::CallbackServerContext& call)
    : context_(context), call_(call), drain_(context.stream_pool, [this] { Drain(); }) {}

void WatchReactor::Begin(const cluster::v1::WatchRequest& request) {
  self_ = shared_from_this();
  spdlog::debug("router {:016x} watches from state {} of epoch {:016x} on", request.router_id(),
                request.known_seq(), request.known_epoch());
  known_epoch_ = request.known_epoch();
  known_seq_ = request.known_seq();
  drain_.Schedule(self_);
}

void WatchReactor::OnFrames() { drain_.Schedule(shared_from_this()); }

void WatchReactor::Close(absl::Status status) {
  {
    MutexLock lock(mu_);
    if (closed_.has_value()) return;
    closed_ = std::move(status);
  }
  drain_.Schedule(shared_from_this());
}

bool WatchReactor::MayWrite() {
  const std::optional<Time> began = gate_.Check();
  if (!began.has_value()) return true;
  if (context_.clock.Now() - *began > context_.stall_limit) {
    Close(engine::ReaderStalled(context_.stall_limit));
    call_.TryCancel();
  }
  return false;
}

void WatchReactor::Drain() {
  if (finished_ || !MayWrite()) return;
  std::optional<absl::Status> closed;
  {
    MutexLock lock(mu_);
    closed = closed_;
  }
  if (closed.has_value()) {
    finished_ = true;
    subscription_.reset();
    return Finish(rpc::ToGrpc(*closed));
  }
  // Here and not in Begin: from then on there are news, and so another Drain, at any time.
  if (subscription_ == nullptr) {
    subscription_ = context_.publisher.Subscribe(known_epoch_, known_seq_, weak_from_this());
  }
  const std::optional<api::WatchFrame> frame = subscription_->Next();
  if (!frame.has_value()) return;
  message_ = api::ToProto(*frame);
  gate_.Begin(context_.clock.Now(), /*drain_after=*/true);
  StartWrite(&message_);
}

void WatchReactor::OnWriteDone(bool ok) {
  if (!ok) Close(CallerLeft());
  if (gate_.End()) drain_.Schedule(shared_from_this());
}

void WatchReactor::OnCancel() { Close(CallerLeft()); }

void WatchReactor::OnDone() { const std::shared_ptr<WatchReactor> self = std::move(self_); }

}  // namespace qanat::service
