#include "worker/service/session_reactor.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/api/call_end.h"
#include "common/api/duration_proto.h"
#include "common/base/error.h"
#include "common/rpc/status.h"
#include "grpcpp/server_context.h"
#include "worker/engine/end_status.h"

namespace qanat::service {
namespace {

// A message of many calls' events stays near this; one call's are bounded by its generation.
constexpr size_t kMaxMessageBytes = 1 << 20;

absl::StatusOr<hash::Namespace> NamespaceOf(const cluster::v1::StartCall& start) {
  hash::Namespace out;
  if (start.cache_namespace().size() != out.bytes.size()) {
    return InvalidField("cache_namespace", absl::StrCat("must be ", out.bytes.size(), " bytes, got ",
                                                        start.cache_namespace().size()));
  }
  std::memcpy(out.bytes.data(), start.cache_namespace().data(), out.bytes.size());
  return out;
}

}  // namespace

SessionReactor::SessionReactor(const ServiceContext& context, grpc::CallbackServerContext& call)
    : context_(context), stream_(call), drain_(context.stream_pool, [this] { Drain(); }) {}

void SessionReactor::Begin() {
  self_ = shared_from_this();
  request_ = std::make_shared<cluster::v1::SessionRequest>();
  StartRead(request_.get());
}

void SessionReactor::OnReadDone(bool ok) {
  if (!ok) return Close(absl::OkStatus());
  if (absl::Status status = Handle(std::exchange(request_, std::make_shared<cluster::v1::SessionRequest>()));
      !status.ok()) {
    return Close(std::move(status));
  }
  StartRead(request_.get());
}

absl::Status SessionReactor::Handle(const std::shared_ptr<cluster::v1::SessionRequest>& request) {
  switch (request->command_case()) {
    case cluster::v1::SessionRequest::kStart:
      return HandleStart(request);
    // A call that is not there has ended: the two messages crossed.
    case cluster::v1::SessionRequest::kCancel:
      if (const auto call = Find(request->cancel().call_id())) {
        call->generation->Abort(engine::EndReason::kCancelled, CallerLeft());
      }
      return absl::OkStatus();
    case cluster::v1::SessionRequest::kPause:
      if (const auto call = Find(request->pause().call_id())) {
        call->generation->SetReaderPaused(request->pause().paused());
      }
      return absl::OkStatus();
    case cluster::v1::SessionRequest::COMMAND_NOT_SET:
      break;  // a newer router's: features are agreed on in GetInfo
  }
  return absl::OkStatus();
}

std::shared_ptr<SessionReactor::SessionCall> SessionReactor::Find(uint64_t id) {
  MutexLock lock(mu_);
  const auto it = calls_.find(id);
  return it == calls_.end() ? nullptr : it->second;
}

absl::Status SessionReactor::HandleStart(const std::shared_ptr<cluster::v1::SessionRequest>& request) {
  const cluster::v1::StartCall& start = request->start();
  const uint64_t id = start.call_id();
  std::shared_ptr<SessionCall> call;
  bool closed;
  {
    MutexLock lock(mu_);
    if (over_) return CallerLeft();
    if (id == 0 || calls_.count(id) > 0) {
      return InvalidField("call_id", absl::StrCat(id, " is 0 or in use"));
    }
    call = std::make_shared<SessionCall>();
    call->id = id;
    call->session = shared_from_this();
    call->generation = std::make_shared<Generation>(context_, call);
    calls_.emplace(id, call);
    closed = closed_.has_value();
  }
  const absl::StatusOr<hash::Namespace> ns = NamespaceOf(start);
  if (!ns.ok()) {
    call->generation->Reject(ns.status());
    return absl::OkStatus();
  }
  if (closed) {
    call->generation->Reject(CallerLeft());
    return absl::OkStatus();
  }
  Call made;
  made.request = std::shared_ptr<const v1::GenerateRequest>(request, &start.request());
  made.cache_namespace = *ns;
  made.may_redirect = true;
  if (start.has_timeout()) made.deadline = context_.clock.Now() + api::FromProto(start.timeout());
  call->generation->Start(std::move(made));
  return absl::OkStatus();
}

void SessionReactor::MarkDirty(std::shared_ptr<SessionCall> call) {
  {
    MutexLock lock(mu_);
    dirty_.push_back(std::move(call));
  }
  drain_.Schedule(shared_from_this());
}

void SessionReactor::Close(absl::Status status) {
  std::vector<std::shared_ptr<SessionCall>> calls;
  {
    MutexLock lock(mu_);
    if (closed_.has_value()) return;
    closed_ = std::move(status);
    for (const auto& [id, call] : calls_) calls.push_back(call);
  }
  for (const auto& call : calls) call->generation->Abort(engine::EndReason::kCancelled, CallerLeft());
  drain_.Schedule(shared_from_this());
}

void SessionReactor::Drain() {
  AdvanceDirty();
  if (!MayWrite()) return;
  CollectEvents();
  // Nobody reads: the calls end unheard.
  while (Broken()) {
    message_.clear_events();
    if (waiting_.empty()) break;
    CollectEvents();
  }
  if (message_.events().empty()) return FinishIfOver();
  gate_.Begin(context_.clock.Now(), /*drain_after=*/!waiting_.empty());
  StartWrite(&message_);
}

bool SessionReactor::Broken() {
  MutexLock lock(mu_);
  return broken_;
}

void SessionReactor::AdvanceDirty() {
  std::vector<std::shared_ptr<SessionCall>> dirty;
  {
    MutexLock lock(mu_);
    dirty.swap(dirty_);
  }
  for (std::shared_ptr<SessionCall>& call : dirty) {
    call->generation->Advance();
    if (!std::exchange(call->waits, true)) waiting_.push_back(std::move(call));
  }
}

bool SessionReactor::MayWrite() {
  const std::optional<Time> began = gate_.Check();
  if (!began.has_value()) return true;
  if (context_.clock.Now() - *began > context_.stall_limit) {
    Close(engine::ReaderStalled(context_.stall_limit));
    stream_.TryCancel();
  }
  return false;
}

void SessionReactor::CollectEvents() {
  message_.clear_events();
  size_t bytes = 0;
  // Each call once a message: who has more to tell queues up behind the others.
  for (size_t left = waiting_.size(); left > 0 && bytes < kMaxMessageBytes; --left) {
    const std::shared_ptr<SessionCall> call = std::move(waiting_.front());
    waiting_.pop_front();
    call->waits = false;
    const int before = message_.events_size();
    AddEvents(*call);
    for (int i = before; i < message_.events_size(); ++i) bytes += message_.events(i).ByteSizeLong();
    if (!call->generation->HasMore()) continue;
    call->generation->Advance();
    call->waits = true;
    waiting_.push_back(call);
  }
}

void SessionReactor::AddEvents(SessionCall& call) {
  if (call.told_end) return;
  Generation& generation = *call.generation;
  if (const auto version = generation.accepted(); version.has_value() && !call.told_accepted) {
    call.told_accepted = true;
    cluster::v1::CallEvent& event = *message_.add_events();
    event.set_call_id(call.id);
    event.mutable_accepted()->set_load_version(*version);
  }
  const bool last = generation.end().has_value();
  if (generation.HasResponse()) {
    cluster::v1::CallEvent& event = *message_.add_events();
    event.set_call_id(call.id);
    *event.mutable_response() = generation.TakeResponse();
  }
  if (!last) return;
  cluster::v1::CallEvent& event = *message_.add_events();
  event.set_call_id(call.id);
  *event.mutable_end() = api::ToCallEnd(*generation.end());
  event.mutable_end()->set_load_version(generation.end_load_version());
  event.mutable_end()->set_redirect(generation.redirect());
  call.told_end = true;
  MutexLock lock(mu_);
  calls_.erase(call.id);
}

void SessionReactor::FinishIfOver() {
  absl::Status status;
  {
    MutexLock lock(mu_);
    if (over_ || !closed_.has_value() || !calls_.empty()) return;
    over_ = true;
    status = *closed_;
  }
  Finish(rpc::ToGrpc(status));
}

void SessionReactor::OnWriteDone(bool ok) {
  if (!ok) {
    {
      MutexLock lock(mu_);
      broken_ = true;
    }
    Close(absl::OkStatus());
  }
  const bool drain = gate_.End();
  bool closed;
  {
    MutexLock lock(mu_);
    closed = closed_.has_value();
  }
  if (drain || closed) drain_.Schedule(shared_from_this());
}

void SessionReactor::OnCancel() { Close(absl::CancelledError("the router left")); }

void SessionReactor::OnDone() { const std::shared_ptr<SessionReactor> self = std::move(self_); }

}  // namespace qanat::service
