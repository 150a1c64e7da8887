#include "router/link/grpc_link_session.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/api/call_end.h"
#include "common/api/duration_proto.h"
#include "common/base/error.h"
#include "common/base/thread_cpu_time.h"
#include "common/rpc/status.h"

namespace qanat::router {
namespace {

absl::Status WorkerLost() {
  return WithReason(absl::UnavailableError("the connection to the worker broke"), kWorkerLost);
}

void DeliverEnd(CallSink& sink, const cluster::v1::CallEnd& end) {
  const absl::Status status = api::FromCallEnd(end);
  switch (end.redirect()) {
    case cluster::v1::REDIRECT_FULL:
      return sink.OnRedirect(Redirect::kFull, status);
    case cluster::v1::REDIRECT_DRAINING:
      return sink.OnRedirect(Redirect::kDraining, status);
    default:  // none, or of a later release: the status says enough
      return sink.OnEnd(status, end.load_version());
  }
}

void Deliver(CallSink& sink, cluster::v1::CallEvent& event) {
  switch (event.event_case()) {
    case cluster::v1::CallEvent::kAccepted:
      return sink.OnAccepted(event.accepted().load_version());
    case cluster::v1::CallEvent::kResponse:
      return sink.OnResponse(std::move(*event.mutable_response()));
    case cluster::v1::CallEvent::kEnd:
      return DeliverEnd(sink, event.end());
    case cluster::v1::CallEvent::EVENT_NOT_SET:
      return;  // of a later release
  }
}

}  // namespace

void GrpcLinkSession::Begin(cluster::v1::WorkerService::Stub& stub, std::shared_ptr<GrpcLinkSession> self) {
  self_ = std::move(self);
  stub.async()->Session(&context_, this);
  AddHold();
  bool write = false;
  {
    MutexLock lock(mu_);
    begun_ = true;
    write = ClaimWrite();
  }
  StartRead(&incoming_);
  if (write) StartWrite(&outgoing_);
  StartCall();
}

bool GrpcLinkSession::Send(CallId id, const WorkerCall& call, std::shared_ptr<CallSink> sink) {
  cluster::v1::SessionRequest message;
  cluster::v1::StartCall& start = *message.mutable_start();
  start.set_call_id(id);
  *start.mutable_request() = call.request;
  start.set_cache_namespace(call.cache_namespace.bytes.data(), call.cache_namespace.bytes.size());
  if (call.deadline.has_value()) {
    *start.mutable_timeout() = api::ToProto(std::max(*call.deadline - clock_.Now(), Duration::zero()));
  }
  bool write = false;
  {
    MutexLock lock(mu_);
    if (broken_) return false;
    calls_.emplace(id, std::move(sink));
    queue_.push_back(std::move(message));
    write = ClaimWrite();
  }
  if (write) StartWrite(&outgoing_);
  return true;
}

void GrpcLinkSession::Cancel(CallId id) {
  cluster::v1::SessionRequest message;
  message.mutable_cancel()->set_call_id(id);
  SendAbout(id, std::move(message));
}

void GrpcLinkSession::SetPaused(CallId id, bool paused) {
  cluster::v1::SessionRequest message;
  message.mutable_pause()->set_call_id(id);
  message.mutable_pause()->set_paused(paused);
  SendAbout(id, std::move(message));
}

void GrpcLinkSession::SendAbout(CallId id, cluster::v1::SessionRequest message) {
  bool write = false;
  {
    MutexLock lock(mu_);
    if (broken_ || calls_.find(id) == calls_.end()) return;
    queue_.push_back(std::move(message));
    write = ClaimWrite();
  }
  if (write) StartWrite(&outgoing_);
}

bool GrpcLinkSession::ClaimWrite() {
  if (!begun_ || writing_ || broken_ || queue_.empty()) return false;
  outgoing_ = std::move(queue_.front());
  queue_.pop_front();
  writing_ = true;
  return true;
}

void GrpcLinkSession::OnWriteDone(bool ok) {
  bool write = false;
  bool release = false;
  {
    MutexLock lock(mu_);
    writing_ = false;
    // After a failed write the read fails as well, and tells.
    write = ok && ClaimWrite();
    release = broken_;
  }
  if (write) StartWrite(&outgoing_);
  if (release) RemoveHold();
}

void GrpcLinkSession::OnReadDone(bool ok) {
  if (ok) {
    events_.on_sign();
    const Duration before = ThreadCpuTime();
    HandOn(incoming_);
    events_.on_relay_cpu(ThreadCpuTime() - before);
    StartRead(&incoming_);
    return;
  }
  bool release = false;
  {
    MutexLock lock(mu_);
    broken_ = true;
    queue_.clear();
    release = !writing_;
  }
  if (release) RemoveHold();
}

void GrpcLinkSession::HandOn(cluster::v1::SessionResponse& message) {
  std::vector<std::shared_ptr<CallSink>> sinks(message.events_size());
  {
    MutexLock lock(mu_);
    for (int i = 0; i < message.events_size(); ++i) {
      const auto found = calls_.find(message.events(i).call_id());
      if (found == calls_.end()) continue;
      if (message.events(i).has_end()) {
        sinks[i] = std::move(found->second);
        calls_.erase(found);
      } else {
        sinks[i] = found->second;
      }
    }
  }
  for (int i = 0; i < message.events_size(); ++i) {
    if (sinks[i] != nullptr) Deliver(*sinks[i], *message.mutable_events(i));
  }
}

void GrpcLinkSession::OnDone(const grpc::Status& status) {
  const std::shared_ptr<GrpcLinkSession> self = std::move(self_);
  events_.on_broken(status.ok() ? absl::UnavailableError("it closed the session") : rpc::FromGrpc(status));
  LoseCalls();
  events_.on_over();
}

void GrpcLinkSession::Abandon() {
  {
    MutexLock lock(mu_);
    broken_ = true;
  }
  LoseCalls();
}

void GrpcLinkSession::LoseCalls() {
  std::unordered_map<CallId, std::shared_ptr<CallSink>> lost;
  {
    MutexLock lock(mu_);
    lost.swap(calls_);
  }
  for (auto& [id, sink] : lost) sink->OnEnd(WorkerLost(), 0);
}

}  // namespace qanat::router
