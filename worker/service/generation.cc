#include "worker/service/generation.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/api/duration_proto.h"
#include "common/base/error.h"
#include "common/base/retry_after.h"
#include "common/base/status_macros.h"
#include "worker/engine/end_status.h"
#include "worker/service/build_request.h"
#include "worker/service/redirect.h"
#include "worker/service/request_log.h"

namespace qanat::service {
namespace {

// What waits of one stream before tokens are left alone, and what those may take, in memory. With as much
// again in the write under way, and gRPC's copy of that, a stream stays below 256 KiB.
constexpr size_t kMaxPendingMemory = 64 << 10;
constexpr size_t kMaxUntoldMemory = 48 << 10;
// Tokens of a choice that the engine may tell ahead of the text: a page of text is enough for any reader that
// reads at all, and what a step may tell is little enough for every one.
constexpr int32_t kMostUntoldTokens = 1024;
constexpr int32_t kFewestUntoldTokens = 16;
// One message at most, with room for what is appended last and for what a last message holds besides.
constexpr size_t kMaxMessageBytes = (1 << 20) - (64 << 10);

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

// Of each choice.
ChoiceLimits LimitsOf(const api::GenerateParams& params) {
  const auto n = static_cast<size_t>(params.n);
  const auto bytes_of = [](const std::optional<int32_t>& logprobs) {
    // The entry and its list, which is an allocation of its own.
    const size_t list = static_cast<size_t>(logprobs.value_or(0)) * sizeof(sampling::TokenLogprob) + 16;
    return logprobs.has_value() ? sizeof(sampling::ScoredToken) + list : 0;
  };
  const size_t token =
      sizeof(TokenId) + std::max(bytes_of(params.logprobs), bytes_of(params.prompt_logprobs));
  const auto tokens_in = [&](size_t memory) {
    return std::clamp(static_cast<int32_t>(memory / token), kFewestUntoldTokens, kMostUntoldTokens);
  };
  // The prompt is choice 0's alone, and the others mostly wait for it: half of the memory is for its scores.
  const size_t untold = n > 1 && params.prompt_logprobs.has_value() ? kMaxUntoldMemory / 2 : kMaxUntoldMemory;
  ChoiceLimits limits{.message_bytes = kMaxMessageBytes / n,
                      .memory = kMaxPendingMemory / n,
                      .tokens = tokens_in(untold / n),
                      .prompt = tokens_in(untold)};
  // The whole answer waits for its end.
  if (params.final_only) limits.memory = std::numeric_limits<size_t>::max();
  return limits;
}

}  // namespace

absl::Status CallerLeft() { return absl::CancelledError("the caller left"); }

Generation::Generation(const ServiceContext& context, std::shared_ptr<GenerationListener> listener)
    : context_(context), arrival_(context.clock.Now()), listener_(std::move(listener)) {}

void Generation::Start(Call call) {
  context_.live.Add(shared_from_this());
  call_ = std::move(call);
  auto params = api::ValidateGenerate(*call_.request, context_.info.model, context_.draw_seed());
  if (!params.ok()) return Refuse(params.status());
  params_ = *std::move(params);
  for (int32_t i = 0; i < params_.n; ++i) {
    choices_.emplace_back(context_.tokenizer, AnswerOptionsOf(params_), LimitsOf(params_),
                          [this] { Notify(); });
  }
  if (call_.request->has_token_ids()) return EncodeAndSubmit();
  const auto bytes = static_cast<int64_t>(call_.request->ByteSizeLong());
  if (context_.text_pool.TryRun([self = shared_from_this()] { self->EncodeAndSubmit(); }, bytes)) return;
  Refuse(WithRetryAfter(
      WithReason(absl::ResourceExhaustedError("too many prompts wait to be encoded"), "QUEUE_FULL"),
      kRetryAfter));
}

void Generation::Reject(absl::Status status) {
  context_.live.Add(shared_from_this());
  call_.may_redirect = true;
  Refuse(std::move(status));
}

void Generation::EncodeAndSubmit() {
  // Whoever left while waiting for the pool costs no encoding.
  if (absl::Status aborted = AbortedStatus(); !aborted.ok()) return Refuse(std::move(aborted));
  if (call_.deadline.has_value() && *call_.deadline <= context_.clock.Now()) {
    return Refuse(engine::DeadlinePassed());
  }
  absl::StatusOr<engine::Request> request = BuildRequest(context_, call_, params_);
  call_.request.reset();
  if (!request.ok()) return Refuse(request.status());
  Submit(*std::move(request));
}

void Generation::Submit(engine::Request request) {
  const auto prompt_tokens = static_cast<int32_t>(request.prompt.size());
  request.sink = SinkOf(choices_.front());
  for (size_t i = 1; i < choices_.size(); ++i) request.other_sinks.push_back(SinkOf(choices_[i]));
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
  if (aborted.has_value()) {
    for (size_t i = 0; i < choices_.size(); ++i) CancelChoice(i, aborted->reason);
  }
  Notify();
}

// Keeps all of it while the engine has one of its choices.
std::shared_ptr<engine::TokenSink> Generation::SinkOf(Choice& choice) {
  return {shared_from_this(), &choice};
}

void Generation::Refuse(absl::Status status) {
  {
    MutexLock lock(mu_);
    refused_ = std::move(status);
  }
  Notify();
}

void Generation::Abort(engine::EndReason reason, absl::Status why) {
  {
    MutexLock lock(mu_);
    if (aborted_.has_value() || refused_.has_value()) return;
    aborted_ = Aborted{reason, std::move(why)};
    if (!accepted_.has_value()) return;
  }
  for (size_t i = 0; i < choices_.size(); ++i) CancelChoice(i, reason);
}

absl::Status Generation::AbortedStatus() const {
  MutexLock lock(mu_);
  return aborted_.has_value() ? aborted_->why : absl::OkStatus();
}

void Generation::CancelChoice(size_t choice, engine::EndReason reason) {
  uint64_t id;
  {
    MutexLock lock(mu_);
    id = ToInt(accepted_->id) + choice;
  }
  context_.engine.Cancel(SequenceId{id}, reason);
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
  std::optional<absl::Status> refused;
  {
    MutexLock lock(mu_);
    refused = refused_;
    // What outran Submit's return waits for it: its news follow.
    if (!refused.has_value() && !accepted_.has_value()) return;
  }
  if (refused.has_value()) {
    if (call_.may_redirect) redirect_ = RedirectOf(*refused);
    context_.metrics.OnRefused(*refused, redirect_);
    // The request is gone once it is understood.
    LogRefusal(call_.request != nullptr ? call_.request->request_id() : params_.request_id, *refused,
               redirect_ != cluster::v1::REDIRECT_UNSPECIFIED);
    return End(*std::move(refused));
  }
  for (size_t i = 0; i < choices_.size(); ++i) AdvanceChoice(i);
  ResumeIfRoom();
}

void Generation::ResumeIfRoom() {
  uint64_t id;
  {
    MutexLock lock(mu_);
    if (!accepted_.has_value()) return;  // Submit's news come here again
    id = ToInt(accepted_->id);
  }
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (choices_[i].TakeResumption()) context_.engine.Resume(SequenceId{id + i});
  }
}

void Generation::SetReaderPaused(bool paused) {
  for (Choice& choice : choices_) choice.SetReaderPaused(paused);
  ResumeIfRoom();
}

void Generation::AdvanceChoice(size_t index) {
  Choice& choice = choices_[index];
  if (choice.concluded()) return;
  const bool stopped = choice.answer().stopped();
  int32_t tokens = choice.Advance();
  // An answer too large for one message is given in parts as they fill up and are taken.
  while (params_.final_only && choice.HasBacklog() && ready_.empty()) {
    ready_.push_back(Take(index));
    tokens += choice.Advance();
  }
  if (tokens > 0 && !std::exchange(told_first_token_, true)) {
    context_.metrics.OnFirstToken(context_.clock.Now() - arrival_);
  }
  context_.metrics.OnDelivered(tokens);
  if (!stopped && choice.answer().stopped()) CancelChoice(index, engine::EndReason::kStop);
  if (choice.ended()) Conclude(index);
}

void Generation::Conclude(size_t index) {
  Choice& choice = choices_[index];
  choice.Conclude();
  const engine::Outcome& outcome = choice.outcome();
  v1::GenerateResponse response = Take(index);
  v1::Finish& finish = *response.mutable_finish();
  finish.set_reason(ToProto(outcome.reason));
  if (const auto stop = choice.answer().stop()) finish.set_stop(params_.stop[*stop]);
  if (const auto id = choice.answer().stop_token()) finish.set_stop_token_id(*id);
  if (!IsSuccess(outcome.reason)) OnFailure(outcome);
  if (++num_concluded_ < choices_.size()) {
    ready_.push_back(std::move(response));
    return;
  }
  const engine::Outcome total = Total();
  SayTotal(total, response);
  end_load_version_ = total.load_version;
  Report(total);
  ready_.push_back(std::move(response));
  End(total.status);
}

// The call cannot end well any more: what the other choices would still say is of no use.
void Generation::OnFailure(const engine::Outcome& outcome) {
  if (failure_.has_value()) return;
  failure_ = Aborted{outcome.reason, StatusOf(outcome)};
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (!choices_[i].concluded()) CancelChoice(i, engine::EndReason::kCancelled);
  }
}

absl::Status Generation::StatusOf(const engine::Outcome& outcome) const {
  MutexLock lock(mu_);
  const bool ours = aborted_.has_value() && aborted_->reason == outcome.reason && !aborted_->why.ok();
  return ours ? aborted_->why : outcome.status;
}

engine::Outcome Generation::Total() const {
  engine::Outcome total = choices_.front().outcome();
  for (size_t i = 1; i < choices_.size(); ++i) {
    const engine::Outcome& other = choices_[i].outcome();
    total.completion_tokens += other.completion_tokens;
    total.decode = std::max(total.decode, other.decode);
    total.preemptions += other.preemptions;
    total.recomputed_tokens += other.recomputed_tokens;
    total.load_version = std::max(total.load_version, other.load_version);
  }
  total.status = absl::OkStatus();
  if (failure_.has_value()) {
    total.reason = failure_->reason;
    total.status = failure_->why;
  }
  return total;
}

void Generation::SayTotal(const engine::Outcome& total, v1::GenerateResponse& response) const {
  v1::Usage& usage = *response.mutable_usage();
  usage.set_prompt_tokens(total.prompt_tokens);
  usage.set_cached_tokens(total.cached_tokens);
  usage.set_completion_tokens(total.completion_tokens);
  v1::Timings& timings = *response.mutable_timings();
  if (total.queue.has_value()) *timings.mutable_queue() = api::ToProto(*total.queue);
  *timings.mutable_prefill() = api::ToProto(total.prefill);
  *timings.mutable_decode() = api::ToProto(total.decode);
  timings.set_preemptions(total.preemptions);
  timings.set_recomputed_tokens(total.recomputed_tokens);
  timings.add_numerics_ids(context_.info.numerics_id);
  response.set_seed(params_.seed);
}

void Generation::Report(const engine::Outcome& total) {
  const Duration took = context_.clock.Now() - arrival_;
  context_.metrics.OnEnded(total, took);
  SequenceId id;
  {
    MutexLock lock(mu_);
    id = accepted_->id;
  }
  LogEnd(id, params_.request_id, total, took);
}

void Generation::End(absl::Status status) {
  end_ = std::move(status);
  std::shared_ptr<GenerationListener> listener;
  MutexLock lock(mu_);
  listener = std::move(listener_);
}

void Generation::Release() { context_.live.Remove(this); }

std::optional<size_t> Generation::ChoiceWithNews() const {
  if (params_.final_only) return std::nullopt;
  for (size_t i = 1; i <= choices_.size(); ++i) {
    const size_t choice = (last_taken_ + i) % choices_.size();
    if (!choices_[choice].concluded() && choices_[choice].answer().HasNews()) return choice;
  }
  return std::nullopt;
}

bool Generation::HasMore() const {
  return HasResponse() || std::any_of(choices_.begin(), choices_.end(),
                                      [](const Choice& choice) { return choice.HasBacklog(); });
}

v1::GenerateResponse Generation::TakeResponse() {
  if (ready_.empty()) return Take(last_taken_ = *ChoiceWithNews());
  v1::GenerateResponse response = std::move(ready_.front());
  ready_.pop_front();
  return response;
}

v1::GenerateResponse Generation::Take(size_t choice) {
  v1::GenerateResponse response = choices_[choice].Take();
  response.set_request_id(params_.request_id);
  response.set_index(static_cast<int32_t>(choice));
  return response;
}

}  // namespace qanat::service
