#include "worker/service/generation.h"

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/api/duration_proto.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "worker/service/build_request.h"
#include "worker/service/request_log.h"

namespace qanat::service {
namespace {

// Text and ids of one stream that wait to be taken before tokens are left alone. With as much again in the
// write under way a stream stays below 256 KiB.
constexpr size_t kMaxPendingBytes = 64 << 10;
// Tokens of one stream that the engine may tell ahead of the text. A page of text: enough for any reader that
// reads at all.
constexpr int32_t kMaxUntoldTokens = 1024;
constexpr std::chrono::milliseconds kRetryAfter(500);

v1::FinishReason ToProto(engine::EndReason reason) {
  switch (reason) {
    case engine::EndReason::kStop:
      return v1::FINISH_REASON_STOP;
    case engine::EndReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case engine::EndReason::kCancelled:
      return v1::FINISH_REASON_CANCELLED;
    case engine::EndReason::kDeadline:
      return v1::FINISH_REASON_DEADLINE;
    case engine::EndReason::kError:
      break;
  }
  return v1::FINISH_REASON_ERROR;
}

bool IsSuccess(engine::EndReason reason) {
  return reason == engine::EndReason::kStop || reason == engine::EndReason::kLength;
}

}  // namespace

absl::Status CallerLeft() { return absl::CancelledError("the caller left"); }

absl::Status ReaderStalled(Duration limit) {
  return WithReason(absl::CancelledError(absl::StrCat("the reader took nothing for ", FormatDuration(limit))),
                    "READER_STALLED");
}

Generation::Generation(const ServiceContext& context, std::shared_ptr<GenerationListener> listener)
    : context_(context), arrival_(context.clock.Now()), listener_(std::move(listener)) {}

void Generation::Start(Call call) {
  context_.live.Add(shared_from_this());
  call_ = std::move(call);
  auto params = api::ValidateGenerate(*call_.request, context_.info.model, context_.draw_seed());
  if (!params.ok()) return Refuse(params.status());
  params_ = *std::move(params);
  answer_.emplace(context_.tokenizer, AnswerOptionsOf(params_));
  if (call_.request->has_token_ids()) return EncodeAndSubmit();
  if (context_.text_pool.TryRun([self = shared_from_this()] { self->EncodeAndSubmit(); })) return;
  Refuse(WithRetryAfter(
      WithReason(absl::ResourceExhaustedError("too many prompts wait to be encoded"), "QUEUE_FULL"),
      kRetryAfter));
}

void Generation::Reject(absl::Status status) {
  context_.live.Add(shared_from_this());
  Refuse(std::move(status));
}

void Generation::EncodeAndSubmit() {
  // Whoever left while waiting for the pool costs no encoding.
  if (absl::Status aborted = AbortedStatus(); !aborted.ok()) return Refuse(std::move(aborted));
  absl::StatusOr<engine::Request> request = BuildRequest(context_, call_, params_);
  call_.request.reset();
  if (!request.ok()) return Refuse(request.status());
  Submit(*std::move(request));
}

void Generation::Submit(engine::Request request) {
  const auto prompt_tokens = static_cast<int32_t>(request.prompt.size());
  request.sink = shared_from_this();
  const absl::StatusOr<engine::Accepted> accepted = context_.engine.Submit(std::move(request));
  if (!accepted.ok()) return Refuse(accepted.status());
  context_.metrics.OnAccepted(prompt_tokens);
  std::optional<Aborted> aborted;
  {
    MutexLock lock(mu_);
    accepted_ = *accepted;
    aborted = aborted_;
  }
  // An Abort before accepted_ was set had nobody to tell.
  if (aborted.has_value()) context_.engine.Cancel(accepted->id, aborted->reason);
  ResumeIfRoom();
  Notify();
}

void Generation::Refuse(absl::Status status) {
  {
    MutexLock lock(mu_);
    refused_ = std::move(status);
  }
  Notify();
}

void Generation::Abort(engine::EndReason reason, absl::Status why) { Cancel({reason, std::move(why)}); }

absl::Status Generation::AbortedStatus() const {
  MutexLock lock(mu_);
  return aborted_.has_value() ? aborted_->why : absl::OkStatus();
}

void Generation::Cancel(Aborted aborted) {
  std::optional<engine::Accepted> accepted;
  const engine::EndReason reason = aborted.reason;
  {
    MutexLock lock(mu_);
    if (aborted_.has_value() || outcome_.has_value() || refused_.has_value()) return;
    aborted_ = std::move(aborted);
    accepted = accepted_;
  }
  if (accepted.has_value()) context_.engine.Cancel(accepted->id, reason);
}

void Generation::OnTokens(int32_t first, absl::Span<const TokenId> tokens) {
  {
    MutexLock lock(mu_);
    inbox_.insert(inbox_.end(), tokens.begin(), tokens.end());
  }
  Notify();
}

int32_t Generation::RoomLocked() const {
  if (reader_paused_) return 0;
  return kMaxUntoldTokens - static_cast<int32_t>(inbox_.size() + backlog_size_);
}

int32_t Generation::Room() const {
  MutexLock lock(mu_);
  return RoomLocked();
}

void Generation::OnPaused() {
  {
    MutexLock lock(mu_);
    paused_ = true;
  }
  // The reader may have caught up since the engine looked.
  ResumeIfRoom();
}

void Generation::ResumeIfRoom() {
  SequenceId id;
  {
    MutexLock lock(mu_);
    if (!paused_ || !accepted_.has_value() || RoomLocked() < kMaxUntoldTokens / 2) return;
    paused_ = false;
    id = accepted_->id;
  }
  context_.engine.Resume(id);
}

void Generation::SetReaderPaused(bool paused) {
  {
    MutexLock lock(mu_);
    reader_paused_ = paused;
  }
  ResumeIfRoom();
}

void Generation::OnEnd(const engine::Outcome& outcome) {
  {
    MutexLock lock(mu_);
    outcome_ = outcome;
  }
  Notify();
}

void Generation::Notify() {
  std::shared_ptr<GenerationListener> listener;
  {
    MutexLock lock(mu_);
    listener = listener_;
  }
  if (listener != nullptr) listener->OnNews(shared_from_this());
}

std::optional<uint64_t> Generation::accepted() const {
  MutexLock lock(mu_);
  return accepted_.has_value() ? std::optional(accepted_->load_version) : std::nullopt;
}

void Generation::Advance() {
  if (end_.has_value()) return;
  std::optional<engine::Outcome> outcome;
  std::optional<absl::Status> refused;
  {
    MutexLock lock(mu_);
    refused = refused_;
    // What outran Submit's return waits for it: its news follow.
    if (accepted_.has_value()) {
      backlog_.insert(backlog_.end(), inbox_.begin(), inbox_.end());
      inbox_.clear();
      outcome = outcome_;
    }
  }
  if (refused.has_value()) {
    context_.metrics.OnRefused(*refused);
    return End(*std::move(refused));
  }
  AppendBacklog();
  {
    MutexLock lock(mu_);
    backlog_size_ = backlog_.size();
  }
  ResumeIfRoom();
  if (outcome.has_value() && backlog_.empty()) Conclude(*outcome);
}

void Generation::AppendBacklog() {
  const int32_t before = answer_->num_tokens();
  size_t appended = 0;
  while (appended < backlog_.size() && !answer_->stopped() && answer_->pending_bytes() < kMaxPendingBytes) {
    answer_->Append(backlog_[appended++]);
  }
  if (answer_->stopped()) {
    // The engine ran ahead; what it drew since is nobody's.
    backlog_.clear();
    Cancel({engine::EndReason::kStop, absl::OkStatus()});
  } else {
    backlog_.erase(backlog_.begin(), backlog_.begin() + static_cast<std::ptrdiff_t>(appended));
  }
  if (before == 0 && appended > 0) context_.metrics.OnFirstToken(context_.clock.Now() - arrival_);
  context_.metrics.OnDelivered(answer_->num_tokens() - before);
}

void Generation::Conclude(const engine::Outcome& outcome) {
  engine::EndReason reason = outcome.reason;
  // An answer that may go on elsewhere (ERROR) keeps back what another worker will say.
  if (reason != engine::EndReason::kError) answer_->Finish();
  if (answer_->stopped()) reason = engine::EndReason::kStop;
  end_load_version_ = outcome.load_version;
  const absl::Status status = StatusOf(reason, outcome);
  Report(reason, outcome, status);
  last_ = LastResponse(reason, outcome);
  End(status);
}

absl::Status Generation::StatusOf(engine::EndReason reason, const engine::Outcome& outcome) const {
  if (IsSuccess(reason)) return absl::OkStatus();
  MutexLock lock(mu_);
  const bool ours = aborted_.has_value() && aborted_->reason == reason && !aborted_->why.ok();
  return ours ? aborted_->why : outcome.status;
}

v1::GenerateResponse Generation::LastResponse(engine::EndReason reason, const engine::Outcome& outcome) {
  v1::GenerateResponse response = answer_->Take();
  response.set_request_id(params_.request_id);
  response.mutable_finish()->set_reason(ToProto(reason));
  if (const auto stop = answer_->stop()) response.mutable_finish()->set_stop(params_.stop[*stop]);
  if (const auto id = answer_->stop_token()) response.mutable_finish()->set_stop_token_id(*id);
  v1::Usage& usage = *response.mutable_usage();
  usage.set_prompt_tokens(outcome.prompt_tokens);
  usage.set_cached_tokens(outcome.cached_tokens);
  usage.set_completion_tokens(answer_->num_tokens());
  v1::Timings& timings = *response.mutable_timings();
  *timings.mutable_queue() = api::ToProto(outcome.queue);
  *timings.mutable_prefill() = api::ToProto(outcome.prefill);
  *timings.mutable_decode() = api::ToProto(outcome.decode);
  timings.set_preemptions(outcome.preemptions);
  timings.set_recomputed_tokens(outcome.recomputed_tokens);
  timings.add_numerics_ids(context_.info.numerics_id);
  response.set_seed(params_.seed);
  return response;
}

void Generation::Report(engine::EndReason reason, const engine::Outcome& outcome,
                        const absl::Status& status) {
  engine::Outcome shown = outcome;
  shown.reason = reason;
  shown.status = status;
  shown.completion_tokens = answer_->num_tokens();
  const Duration total = context_.clock.Now() - arrival_;
  context_.metrics.OnEnded(shown, total);
  SequenceId id;
  {
    MutexLock lock(mu_);
    id = accepted_->id;
  }
  LogEnd(id, params_.request_id, shown, total);
}

void Generation::End(absl::Status status) {
  end_ = std::move(status);
  context_.live.Remove(this);
  std::shared_ptr<GenerationListener> listener;
  MutexLock lock(mu_);
  listener = std::move(listener_);
}

v1::GenerateResponse Generation::TakeResponse() {
  if (last_.has_value()) return *std::exchange(last_, std::nullopt);
  v1::GenerateResponse response = answer_->Take();
  response.set_request_id(params_.request_id);
  return response;
}

}  // namespace qanat::service
