#include "router/service/generate_call.h"

#include <utility>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/retry_after.h"
#include "common/base/status_macros.h"
#include "common/rpc/options.h"
#include "common/rpc/status.h"

namespace qanat::router {
namespace {

// What may wait for a caller before his worker pauses, and what is left when it goes on. With what the worker
// has computed ahead by then, and the write under way, a caller costs less than 256 KiB.
constexpr size_t kMuchBytes = 64 << 10;
constexpr size_t kLittleBytes = 16 << 10;

// Until tenants are told apart by their credentials.
constexpr std::string_view kDefaultTenant = "default";
double Milliseconds(Duration duration) { return Seconds(duration) * 1e3; }

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* GenerateCall::Start(
    const ServiceParts& parts, const grpc::CallbackServerContext& context,
    const v1::GenerateRequest& request) {
  const auto call = std::make_shared<GenerateCall>(parts, context, request);
  call->self_ = call;
  parts.stall_sweeper.Add(call);
  if (absl::Status status = call->Admit(); !status.ok()) call->OnPrepared(status);
  return call.get();
}

GenerateCall::GenerateCall(const ServiceParts& parts, const grpc::CallbackServerContext& context,
                           const v1::GenerateRequest& request)
    : parts_(parts),
      received_(parts.clock.Now()),
      deadline_(rpc::DeadlineOf(context, parts.clock)),
      request_(request),
      gate_(context) {}

absl::Status GenerateCall::Admit() {
  QANAT_ASSIGN_OR_RETURN(ticket_, parts_.admission.Enter(static_cast<int64_t>(request_.ByteSizeLong())));
  QANAT_ASSIGN_OR_RETURN(served_, FindServedModel(parts_.cluster.Snapshot(), request_.model()));
  series_ = parts_.metrics.OfModel(served_.model->id);
  QANAT_ASSIGN_OR_RETURN(params_, api::ValidateGenerate(request_, served_.limits, parts_.draw_seed()));
  parts_.metrics.OfQueue(params_.priority).requests.Add(1);
  queued_ = true;
  if (parts_.text_pool.TryRun([self = self_] { self->OnPrepared(self->Forward()); })) return absl::OkStatus();
  return WithRetryAfter(
      WithReason(absl::ResourceExhaustedError("too many prompts wait to be encoded"), "QUEUE_FULL"),
      kRetryAfter);
}

absl::Status GenerateCall::Forward() {
  {
    MutexLock lock(mu_);
    if (abandoned_) return absl::CancelledError("the caller left");
  }
  QANAT_RETURN_IF_ERROR(api::CheckMayDraw(params_, served_.model->tokenizer->vocabulary().eog));
  QANAT_ASSIGN_OR_RETURN(
      const std::vector<TokenId> prompt,
      api::EncodePrompt(request_, *served_.model->tokenizer, served_.model->chat_template.get()));
  QANAT_ASSIGN_OR_RETURN(const int32_t max_tokens, api::ClipMaxTokens(params_, prompt, served_.limits));
  QANAT_RETURN_IF_ERROR(ticket_->AddTokens(static_cast<int64_t>(prompt.size())));
  prompt_tokens_ = static_cast<int32_t>(prompt.size());
  parts_.metrics.OfQueue(params_.priority).tokens.Add(prompt_tokens_);
  std::shared_ptr<ForwardedStream> stream =
      parts_.forwarder.Start(MakeForwardRequest(prompt, max_tokens), self_);
  bool abandoned = false;
  {
    MutexLock lock(mu_);
    stream_ = stream;
    abandoned = abandoned_;
  }
  if (abandoned) stream->Cancel();
  return absl::OkStatus();
}

ForwardRequest GenerateCall::MakeForwardRequest(const std::vector<TokenId>& prompt, int32_t max_tokens) {
  ForwardRequest out;
  out.request = std::move(request_);
  out.request.set_model(served_.model->id);
  out.request.mutable_token_ids()->mutable_ids()->Assign(prompt.begin(), prompt.end());
  out.request.mutable_sampling()->set_seed(params_.seed);
  out.request.mutable_stopping()->set_max_tokens(max_tokens);
  out.model = served_.model;
  out.cache_namespace = hash::DeriveNamespace(parts_.hash_key, kDefaultTenant, params_.cache_salt);
  out.deadline = deadline_;
  return out;
}

void GenerateCall::OnPrepared(const absl::Status& status) {
  if (std::exchange(queued_, false)) {
    RouterMetrics::QueueSeries queue = parts_.metrics.OfQueue(params_.priority);
    queue.requests.Add(-1);
    queue.tokens.Add(-prompt_tokens_);
    queue.duration.Observe(Seconds(parts_.clock.Now() - received_));
  }
  Next next;
  {
    MutexLock lock(mu_);
    preparing_ = false;
    if (!status.ok() && !end_.has_value()) end_ = status;
    next = Advance();
  }
  Do(next);
}

void GenerateCall::OnResponse(v1::GenerateResponse response, int32_t tokens) {
  Next next;
  {
    MutexLock lock(mu_);
    if (abandoned_) return;
    Observe(response, tokens);
    outbox_.Push(std::move(response));
    next = Advance();
  }
  Do(next);
  ThrottleWorker();
}

void GenerateCall::OnEnd(const absl::Status& status) {
  Next next;
  {
    MutexLock lock(mu_);
    if (!end_.has_value()) end_ = status;
    next = Advance();
  }
  Do(next);
}

void GenerateCall::OnWriteDone(bool ok) {
  Next next;
  {
    MutexLock lock(mu_);
    gate_.End();
    next = Advance();
  }
  Do(next);
  if (!ok) return Abandon(Left());
  ThrottleWorker();
}

void GenerateCall::ThrottleWorker() {
  std::shared_ptr<ForwardedStream> stream;
  bool pause = false;
  {
    MutexLock lock(mu_);
    if (abandoned_ || stream_ == nullptr || telling_) return;
    pause = WantsPause();
    if (pause == paused_) return;
    telling_ = true;
    stream = stream_;
  }
  // One thread tells at a time, until what was told last is what is wanted: orders must not overtake each
  // other.
  for (bool told = false; !told;) {
    stream->SetPaused(pause);
    MutexLock lock(mu_);
    paused_ = pause;
    pause = WantsPause();
    told = pause == paused_;
    telling_ = !told;
  }
}

bool GenerateCall::WantsPause() const { return outbox_.bytes() > (paused_ ? kLittleBytes : kMuchBytes); }

absl::Status GenerateCall::Left() const {
  const bool late = deadline_.has_value() && parts_.clock.Now() >= *deadline_;
  return late ? DeadlineExceeded("the deadline passed") : absl::CancelledError("the caller left");
}

void GenerateCall::EndIfStalled(Time time) {
  if (!gate_.BeganBefore(time)) return;
  Abandon(ReaderStalled(parts_.stall_sweeper.limit()));
  gate_.Cancel();
}

void GenerateCall::Abandon(const absl::Status& why) {
  std::shared_ptr<ForwardedStream> stream;
  Next next;
  {
    MutexLock lock(mu_);
    if (std::exchange(abandoned_, true)) return;
    stream = stream_;
    outbox_ = Outbox();
    // An answer that is complete, but was not taken, is none.
    if (!end_.has_value() || end_->ok()) end_ = why;
    next = Advance();
  }
  if (stream != nullptr) stream->Cancel();
  Do(next);
}

GenerateCall::Next GenerateCall::Advance() {
  if (preparing_ || finished_ || !gate_.MayWrite()) return Next::kNothing;
  finished_ = outbox_.empty() && end_.has_value();
  if (outbox_.empty() && !finished_) return Next::kNothing;
  gate_.Begin(parts_.clock.Now(), /*drain_after=*/false);
  if (finished_) return Next::kFinish;
  outgoing_ = outbox_.Pop();
  return Next::kWrite;
}

// Outside the lock: at most one thread at a time was told to do something.
void GenerateCall::Do(Next next) {
  switch (next) {
    case Next::kNothing:
      return;
    case Next::kWrite:
      return StartWrite(&outgoing_);
    case Next::kFinish: {
      absl::Status end;
      {
        MutexLock lock(mu_);
        end = *end_;
      }
      return Finish(rpc::ToGrpc(end));
    }
  }
}

void GenerateCall::Observe(const v1::GenerateResponse& response, int32_t tokens) {
  if (response.has_usage()) cached_tokens_ = response.usage().cached_tokens();
  if (tokens == 0) return;
  const Time now = parts_.clock.Now();
  output_tokens_ += tokens;
  if (!first_token_.has_value()) {
    first_token_ = now;
    series_->time_to_first_token.Observe(Seconds(now - received_));
  }
  std::optional<Time>& last = last_token_[response.index()];
  if (last.has_value()) {
    // Tokens that come together share the gap before them.
    const double gap = Seconds(now - *last) / tokens;
    for (int32_t i = 0; i < tokens; ++i) series_->inter_token.Observe(gap);
  }
  last = now;
}

void GenerateCall::OnDone() {
  const std::shared_ptr<GenerateCall> self = std::move(self_);
  gate_.Close();
  parts_.stall_sweeper.Remove(this);
  ticket_.reset();
  const Duration took = parts_.clock.Now() - received_;
  absl::Status end;
  std::optional<Duration> first;
  int64_t output_tokens = 0;
  int32_t cached_tokens = 0;
  std::shared_ptr<ForwardedStream> stream;  // it holds this call, and is let go outside the lock
  {
    MutexLock lock(mu_);
    end = *end_;
    if (first_token_.has_value()) first = *first_token_ - received_;
    output_tokens = output_tokens_;
    cached_tokens = cached_tokens_;
    stream = std::move(stream_);
  }
  if (series_.has_value()) series_->request_duration.Observe(Seconds(took));
  parts_.metrics.OnRequestEnd(served_.model == nullptr ? "" : served_.model->id, end, first.has_value());
  LogEvent event(spdlog::level::info, "request end");
  event.With("code", absl::StatusCodeToString(end.code()))
      .With("reason", ReasonOf(end))
      .With("prompt_tokens", prompt_tokens_)
      .With("cached_tokens", cached_tokens)
      .With("completion_tokens", output_tokens)
      .With("total_ms", Milliseconds(took));
  if (first.has_value()) event.With("first_token_ms", Milliseconds(*first));
}

}  // namespace qanat::router
