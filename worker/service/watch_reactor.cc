#include "worker/service/watch_reactor.h"

#include <utility>

#include "common/api/watch.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/rpc/status.h"
#include "grpcpp/server_context.h"
#include "worker/service/generation.h"

namespace qanat::service {

WatchReactor::WatchReactor(const ServiceContext& context, grpc::CallbackServerContext& call)
    : context_(context), drain_(context.stream_pool, [this] { Drain(); }), gate_(call) {}

void WatchReactor::Begin(const cluster::v1::WatchRequest& request) {
  self_ = shared_from_this();
  spdlog::debug("router {:016x} watches from state {} of epoch {:016x} on", request.router_id(),
                request.known_seq(), request.known_epoch());
  known_epoch_ = request.known_epoch();
  known_seq_ = request.known_seq();
  context_.stall_sweeper.Add(self_);
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

void WatchReactor::EndIfStalled(Time time) {
  if (!gate_.BeganBefore(time)) return;
  Close(ReaderStalled(context_.stall_sweeper.limit()));
  gate_.Cancel();
}

void WatchReactor::Drain() {
  if (finished_ || !gate_.MayWrite()) return;
  std::optional<absl::Status> closed;
  {
    MutexLock lock(mu_);
    closed = closed_;
  }
  if (closed.has_value()) {
    finished_ = true;
    subscription_.reset();
    gate_.Begin(context_.clock.Now(), /*drain_after=*/false);
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

void WatchReactor::OnDone() {
  gate_.Close();
  context_.stall_sweeper.Remove(this);
  const std::shared_ptr<WatchReactor> self = std::move(self_);
}

}  // namespace qanat::service
