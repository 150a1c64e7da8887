#include "worker/service/generate_reactor.h"

#include <chrono>
#include <utility>

#include "common/base/error.h"
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
      deadline_(rpc::DeadlineOf(call, context.clock)),
      drain_(context.stream_pool, [this] { Drain(); }),
      gate_(call) {}

void GenerateReactor::Begin(const v1::GenerateRequest& request) {
  self_ = shared_from_this();
  generation_ = std::make_shared<Generation>(context_, self_);
  context_.stall_sweeper.Add(self_);
  Call call;
  // Not owned: gRPC keeps it until the call is done, and the call is not done before its generation.
  call.request = std::shared_ptr<const v1::GenerateRequest>(std::shared_ptr<void>(), &request);
  call.cache_namespace = hash::DeriveNamespace(context_.hash_key, kTenant, request.cache_salt());
  call.deadline = deadline_;
  generation_->Start(std::move(call));
}

void GenerateReactor::OnNews(const std::shared_ptr<Generation>&) { drain_.Schedule(shared_from_this()); }

void GenerateReactor::EndIfStalled(Time time) {
  if (!gate_.BeganBefore(time)) return;
  generation_->Abort(engine::EndReason::kCancelled, ReaderStalled(context_.stall_sweeper.limit()));
  gate_.Cancel();
}

void GenerateReactor::Drain() {
  if (finished_) return;
  generation_->Advance();
  if (!gate_.MayWrite()) return;
  finished_ = generation_->end().has_value();
  const bool has_response = generation_->HasResponse();
  if (!has_response && !finished_) return;
  if (has_response) message_ = generation_->TakeResponse();
  gate_.Begin(context_.clock.Now(), /*drain_after=*/generation_->HasMore());
  if (!finished_) return StartWrite(&message_);
  const grpc::Status status = rpc::ToGrpc(*generation_->end());
  if (!has_response) return Finish(status);
  StartWriteAndFinish(&message_, grpc::WriteOptions(), status);
}

void GenerateReactor::OnWriteDone(bool ok) {
  if (!ok) generation_->Abort(engine::EndReason::kCancelled, CallerLeft());
  if (gate_.End()) drain_.Schedule(shared_from_this());
}

void GenerateReactor::OnCancel() {
  // gRPC cancels a call at its deadline, too.
  if (deadline_.has_value() && context_.clock.Now() + kDeadlineSlack >= *deadline_) {
    return generation_->Abort(engine::EndReason::kDeadline, engine::DeadlinePassed());
  }
  generation_->Abort(engine::EndReason::kCancelled, CallerLeft());
}

void GenerateReactor::OnDone() {
  gate_.Close();
  context_.stall_sweeper.Remove(this);
  generation_->Release();
  const std::shared_ptr<GenerateReactor> self = std::move(self_);
}

}  // namespace qanat::service
