#include "worker/service/generate_reactor.h"

#include <chrono>
#include <utility>

#include "common/rpc/options.h"
#include "common/rpc/status.h"
#include "grpcpp/server_context.h"
#include "worker/engine/end_status.h"

namespace qanat::service {
namespace {

// The one tenant of a worker without tenants: a router computes the namespace of its own.
constexpr char kTenant[] = "default";

// A caller's deadline comes earlier than ours by the time that the call took to get here.
constexpr std::chrono::milliseconds kDeadlineSlack(20);

}  // namespace

GenerateReactor::GenerateReactor(const ServiceContext& context, grpc::CallbackServerContext& call)
    : context_(context),
      call_(call),
      deadline_(rpc::DeadlineOf(call, context.clock)),
      drain_(context.stream_pool, [this] { Drain(); }) {}

void GenerateReactor::Begin(const v1::GenerateRequest& request) {
  self_ = shared_from_this();
  generation_ = std::make_shared<Generation>(context_, self_);
  Call call;
  // Not owned: gRPC keeps it until the call is done, and the call is not done before its generation.
  call.request = std::shared_ptr<const v1::GenerateRequest>(std::shared_ptr<void>(), &request);
  call.cache_namespace = hash::DeriveNamespace(context_.hash_key, kTenant, request.cache_salt());
  call.deadline = deadline_;
  generation_->Start(std::move(call));
}

void GenerateReactor::OnNews(const std::shared_ptr<Generation>&) { drain_.Schedule(shared_from_this()); }

bool GenerateReactor::MayWrite() {
  const std::optional<Time> began = gate_.Check();
  if (!began.has_value()) return true;
  if (context_.clock.Now() - *began > context_.stall_limit) {
    generation_->Abort(engine::EndReason::kCancelled, engine::ReaderStalled(context_.stall_limit));
    // Without it the write under way, and so the call, would wait for the reader for ever.
    call_.TryCancel();
  }
  return false;
}

void GenerateReactor::Drain() {
  if (finished_) return;
  generation_->Advance();
  if (!MayWrite()) return;
  const bool last = generation_->end().has_value();
  if (!generation_->HasResponse()) {
    if (!last) return;
    finished_ = true;
    return Finish(rpc::ToGrpc(*generation_->end()));
  }
  message_ = generation_->TakeResponse();
  if (last) {
    finished_ = true;
    return StartWriteAndFinish(&message_, grpc::WriteOptions(), rpc::ToGrpc(*generation_->end()));
  }
  gate_.Begin(context_.clock.Now(), /*drain_after=*/generation_->HasMore());
  StartWrite(&message_);
}

void GenerateReactor::OnWriteDone(bool ok) {
  if (!ok) generation_->Abort(engine::EndReason::kCancelled, CallerLeft());
  if (gate_.End()) drain_.Schedule(shared_from_this());
}

void GenerateReactor::OnCancel() {
  // gRPC cancels a call at its deadline, too.
  if (deadline_.has_value() && context_.clock.Now() + kDeadlineSlack >= *deadline_) {
    return generation_->Abort(engine::EndReason::kDeadline,
                              absl::DeadlineExceededError("the deadline has passed"));
  }
  generation_->Abort(engine::EndReason::kCancelled, CallerLeft());
}

void GenerateReactor::OnDone() { const std::shared_ptr<GenerateReactor> self = std::move(self_); }

}  // namespace qanat::service
