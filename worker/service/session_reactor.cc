#include "worker/service/session_reactor.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/api/call_end.h"
#include "common/api/duration_proto.h"
#include "common/base/error.h"
#include "common/rpc/options.h"
#include "common/rpc/status.h"
#include "google/protobuf/io/coded_stream.h"
#include "grpcpp/server_context.h"

namespace qanat::service {
namespace {

// A message of many calls' events stays below this; one call's are bounded by its generation.
constexpr size_t kMaxMessageBytes = 1 << 20;

// How the calls of a stream end that ends with `status`. Other workers may go on with what a worker that
// leaves did not finish.
struct CallsEnd {
  engine::EndReason reason;
  absl::Status why;
};

CallsEnd CallsEndOf(const absl::Status& status) {
  if (absl::IsUnavailable(status)) return {engine::EndReason::kError, status};
  return {engine::EndReason::kCancelled, CallerLeft()};
}

// In a message, with the tag and the length.
size_t BytesOf(const cluster::v1::CallEvent& event) {
  const size_t bytes = event.ByteSizeLong();
  return 1 + google::protobuf::io::CodedOutputStream::VarintSize64(bytes) + bytes;
}

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
    : context_(context), drain_(context.stream_pool, [this] { Drain(); }), gate_(call) {}

void SessionReactor::Begin() {
  self_ = shared_from_this();
  context_.stall_sweeper.Add(self_);
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
  std::optional<absl::Status> closed;
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
    closed = closed_;
  }
  const absl::StatusOr<hash::Namespace> ns = NamespaceOf(start);
  if (!ns.ok()) {
    call->generation->Reject(ns.status());
    return absl::OkStatus();
  }
  if (closed.has_value()) {
    call->generation->Reject(CallsEndOf(*closed).why);
    return absl::OkStatus();
  }
  Call made;
  made.request = std::shared_ptr<const v1::GenerateRequest>(request, &start.request());
  made.cache_namespace = *ns;
  made.may_redirect = true;
  if (start.has_timeout()) made.deadline = rpc::DeadlineIn(api::FromProto(start.timeout()), context_.clock);
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
  const CallsEnd end = CallsEndOf(status);
  std::vector<std::shared_ptr<SessionCall>> calls;
  {
    MutexLock lock(mu_);
    if (closed_.has_value()) return;
    closed_ = std::move(status);
    for (const auto& [id, call] : calls_) calls.push_back(call);
  }
  for (const auto& call : calls) call->generation->Abort(end.reason, end.why);
  drain_.Schedule(shared_from_this());
}

void SessionReactor::Drain() {
  AdvanceDirty();
  if (!gate_.MayWrite()) return;
  CollectEvents();
  // Nobody reads: the calls end unheard.
  while (Broken()) {
    message_.clear_events();
    ReleaseEnded();
    if (waiting_.empty() && overflow_.events.empty()) break;
    CollectEvents();
  }
  if (message_.events().empty()) return FinishIfOver();
  gate_.Begin(context_.clock.Now(), /*drain_after=*/!waiting_.empty() || !overflow_.events.empty());
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

void SessionReactor::EndIfStalled(Time time) {
  if (!gate_.BeganBefore(time)) return;
  Close(ReaderStalled(context_.stall_sweeper.limit()));
  gate_.Cancel();
}

void SessionReactor::CollectEvents() {
  message_.clear_events();
  message_.mutable_events()->Swap(&overflow_.events);
  ended_ = std::exchange(overflow_.ended, {});
  size_t bytes = message_.ByteSizeLong();
  // Each call once a message: who has more to tell queues up behind the others.
  for (size_t left = waiting_.size(); left > 0 && bytes < kMaxMessageBytes; --left) {
    const std::shared_ptr<SessionCall> call = std::move(waiting_.front());
    waiting_.pop_front();
    call->waits = false;
    const int before = message_.events_size();
    AddEvents(*call);
    for (int i = before; i < message_.events_size(); ++i) bytes += BytesOf(message_.events(i));
    if (call->generation->HasMore()) {
      call->generation->Advance();
      call->waits = true;
      waiting_.push_back(call);
    }
    if (bytes > kMaxMessageBytes && before > 0) return PutOff(*call, before);
  }
}

void SessionReactor::PutOff(const SessionCall& call, int first_event) {
  const int count = message_.events_size() - first_event;
  std::vector<cluster::v1::CallEvent*> events(static_cast<size_t>(count));
  message_.mutable_events()->ExtractSubrange(first_event, count, events.data());
  for (cluster::v1::CallEvent* event : events) overflow_.events.AddAllocated(event);
  if (!call.told_end) return;
  overflow_.ended.push_back(std::move(ended_.back()));
  ended_.pop_back();
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
  ended_.push_back(call.generation);
  MutexLock lock(mu_);
  calls_.erase(call.id);
}

void SessionReactor::ReleaseEnded() {
  for (const auto& generation : ended_) generation->Release();
  ended_.clear();
}

void SessionReactor::FinishIfOver() {
  absl::Status status;
  {
    MutexLock lock(mu_);
    if (over_ || !closed_.has_value() || !calls_.empty()) return;
    over_ = true;
    status = *closed_;
  }
  gate_.Begin(context_.clock.Now(), /*drain_after=*/false);
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
  ReleaseEnded();
  const bool drain = gate_.End();
  bool closed;
  {
    MutexLock lock(mu_);
    closed = closed_.has_value();
  }
  if (drain || closed) drain_.Schedule(shared_from_this());
}

void SessionReactor::OnCancel() { Close(absl::CancelledError("the router left")); }

void SessionReactor::OnDone() {
  gate_.Close();
  context_.stall_sweeper.Remove(this);
  const std::shared_ptr<SessionReactor> self = std::move(self_);
}

}  // namespace qanat::service
