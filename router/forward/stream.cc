#include "router/forward/stream.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/pool_tokens.h"
#include "common/base/retry_after.h"

namespace qanat::router {
namespace {

// A request that may have killed two workers does not get a third.
constexpr int kMostLosses = 2;
constexpr int kMostRedirects = 2;

bool IsWorkerLost(const absl::Status& status) { return ReasonOf(status) == kWorkerLost; }
bool IsDraining(const absl::Status& status) { return ReasonOf(status) == kWorkerDraining; }

absl::Status AllFull() {
  return WithRetryAfter(
      WithReason(absl::ResourceExhaustedError("every worker of the model has as many requests as it takes"),
                 "QUEUE_FULL"),
      kRetryAfter);
}

void LogDecision(const std::string& worker, const Route& route, int32_t prompt_tokens, Duration took) {
  if (!spdlog::should_log(spdlog::level::debug)) return;
  LogEvent(spdlog::level::debug, "request routed")
      .With("worker", worker)
      .With("prompt_tokens", prompt_tokens)
      .With("expected_hit_tokens", route.hit_tokens)
      .With("expected_ttft_ms", route.ttft_ms)
      .With("decision_us", Seconds(took) * 1e6);
}

// What became of the expectation.
void LogOutcome(const std::string& worker, const Route& expected, int32_t hit_tokens) {
  if (!spdlog::should_log(spdlog::level::debug)) return;
  LogEvent(spdlog::level::debug, "route outcome")
      .With("worker", worker)
      .With("expected_hit_tokens", expected.hit_tokens)
      .With("hit_tokens", hit_tokens);
}

}  // namespace

// Knows which attempt the link's news belong to.
class Stream::Attempt final : public CallSink {
 public:
  Attempt(std::shared_ptr<Stream> stream, int number) : stream_(std::move(stream)), number_(number) {}
  void OnAccepted(uint64_t load_version) override { stream_->OnAccepted(number_, load_version); }
  void OnResponse(v1::GenerateResponse response) override {
    stream_->OnResponse(number_, std::move(response));
  }
  void OnEnd(const absl::Status& status, uint64_t load_version) override {
    stream_->OnEnd(number_, status, load_version);
  }
  void OnRedirect(Redirect why, const absl::Status& status) override {
    stream_->OnEnd(number_, status, 0, why);
  }

 private:
  const std::shared_ptr<Stream> stream_;  // shared: the link keeps the stream alive until the call's end
  const int number_;
};

Stream::Stream(const Parts& parts, ForwardRequest request, std::shared_ptr<StreamSink> sink)
    : parts_(parts),
      sink_(std::move(sink)),
      model_(std::move(request.model)),
      prompt_tokens_(request.request.token_ids().ids_size()),
      wants_token_ids_(request.request.output().token_ids()),
      choices_(std::max(1, request.request.sampling().n())) {
  const Time began = parts_.clock.Now();
  const hash::BlockHasher hasher(parts_.hash_key, model_->fingerprint, model_->block_size);
  blocks_ = hasher.HashPrompt(request.cache_namespace, request.request.token_ids().ids());
  hashing_ = parts_.clock.Now() - began;
  route_.model = model_.get();
  route_.pool_tokens = PoolTokens({.prompt = prompt_tokens_,
                                   .output = request.request.stopping().max_tokens(),
                                   .choices = static_cast<int64_t>(choices_.size())},
                                  model_->block_size);
  // A request that reads nothing from a cache hits nothing anywhere.
  const bool reads_cache =
      !request.request.bypass_prefix_cache() && !request.request.output().has_prompt_logprobs();
  if (reads_cache) route_.hashes = blocks_;
  route_.prompt_tokens = prompt_tokens_;
  route_.choices = static_cast<int32_t>(choices_.size());
  route_.max_new_tokens = request.request.stopping().max_tokens();
  route_.salt = request.request.sampling().seed();
  route_.index = &parts_.cluster.index();
  route_.pending = &parts_.cluster.pending();
  call_.request = std::move(request.request);
  // Asked for in any case: they are the only way to know how many tokens a message covers.
  call_.request.mutable_output()->set_token_ids(true);
  call_.cache_namespace = request.cache_namespace;
  call_.deadline = request.deadline;
}

void Stream::Begin() { TryWorkers(absl::OkStatus()); }

void Stream::Cancel() {
  WorkerLink* link = nullptr;
  CallId id = 0;
  {
    MutexLock lock(mu_);
    if (std::exchange(cancelled_, true) || !dispatch_.has_value() || !call_id_.has_value()) return;
    link = dispatch_->link;
    id = *call_id_;
  }
  link->Cancel(id);
}

void Stream::SetPaused(bool paused) {
  {
    MutexLock lock(mu_);
    paused_ = paused;
  }
  TellPaused();
}

// One thread tells at a time, until what was told last is what is wanted: orders must not overtake each
// other.
void Stream::TellPaused() {
  for (bool mine = false;;) {
    WorkerLink* link = nullptr;
    CallId id = 0;
    bool paused = false;
    {
      MutexLock lock(mu_);
      if (std::exchange(mine, true)) telling_ = false;
      if (telling_ || !dispatch_.has_value() || !call_id_.has_value() || told_paused_ == paused_) return;
      telling_ = true;
      paused = told_paused_ = paused_;
      link = dispatch_->link;
      id = *call_id_;
    }
    link->SetPaused(id, paused);
  }
}

void Stream::TryWorkers(const absl::Status& refusal) {
  for (;;) {
    if (absl::Status alive = CheckAlive(); !alive.ok()) return Finish(alive);
    absl::StatusOr<Chosen> chosen = Choose();
    if (!chosen.ok()) return Finish(refusal.ok() ? chosen.status() : refusal);
    route_.excluded.push_back(chosen->route.worker);
    if (StartAttempt(*std::move(chosen))) return;
  }
}

absl::StatusOr<Stream::Chosen> Stream::Choose() {
  for (;;) {
    const Time began = parts_.clock.Now();
    const Decision decision = parts_.policy.Pick(route_, parts_.cluster.Snapshot());
    const Time now = parts_.clock.Now();
    const Duration took = now - began + std::exchange(hashing_, {});
    if (const auto* reject = std::get_if<Reject>(&decision)) {
      parts_.metrics.OnDecision("reject", took);
      return reject->status;
    }
    if (std::holds_alternative<Wait>(decision)) {
      parts_.metrics.OnDecision("wait", took);
      return AllFull();
    }
    parts_.metrics.OnDecision("route", took);
    const Route& route = std::get<Route>(decision);
    std::optional<Dispatch> dispatch =
        parts_.cluster.TryDispatch(route.worker, prompt_tokens_ - route.hit_tokens, blocks_, route_.choices);
    if (dispatch.has_value()) {
      LogDecision(dispatch->address, route, prompt_tokens_, took);
      return Chosen{*std::move(dispatch), route, now};
    }
    // It left after the snapshot was taken.
    route_.excluded.push_back(route.worker);
  }
}

bool Stream::StartAttempt(Chosen chosen) {
  WorkerLink* const link = chosen.dispatch.link;
  const std::string worker = chosen.dispatch.address;
  int number = 0;
  {
    MutexLock lock(mu_);
    number = ++attempt_;
    accepted_ = told_paused_ = false;
    call_id_.reset();
    dispatch_.emplace(std::move(chosen.dispatch));
    expected_ = chosen.route;
    chosen_at_ = chosen.at;
  }
  const std::optional<CallId> id = link->Start(call_, std::make_shared<Attempt>(shared_from_this(), number));
  std::optional<Dispatch> unused;  // leaves the ledger outside the lock
  bool cancel = false;
  {
    MutexLock lock(mu_);
    if (!id.has_value()) {
      unused = std::move(dispatch_);
      dispatch_.reset();
      return false;
    }
    // The attempt may have ended already, and another begun.
    if (attempt_ == number && dispatch_.has_value()) {
      call_id_ = id;
      cancel = cancelled_;
    }
  }
  parts_.metrics.OnDispatch(worker);
  if (cancel) link->Cancel(*id);
  // The caller may have asked for it before the call had a name.
  TellPaused();
  return true;
}

absl::Status Stream::CheckAlive() const {
  MutexLock lock(mu_);
  if (cancelled_) return absl::CancelledError("cancelled by the caller");
  if (call_.deadline.has_value() && parts_.clock.Now() >= *call_.deadline) {
    return DeadlineExceeded("the deadline passed before a worker could take the request");
  }
  return absl::OkStatus();
}

void Stream::Finish(const absl::Status& status) { sink_->OnEnd(status); }

void Stream::OnAccepted(int number, uint64_t load_version) {
  MutexLock lock(mu_);
  if (number != attempt_ || !dispatch_.has_value()) return;
  accepted_ = true;
  dispatch_->entry.Accept(load_version);
}

void Stream::OnResponse(int number, v1::GenerateResponse response) {
  const int32_t tokens = response.token_ids_size();
  std::string worker;
  Route expected;
  std::optional<Duration> first_token;  // since the decision
  {
    MutexLock lock(mu_);
    if (number != attempt_ || !dispatch_.has_value()) return;
    accepted_ = passed_on_ = true;
    if (tokens > 0 && !std::exchange(has_tokens_, true)) first_token = parts_.clock.Now() - chosen_at_;
    worker = dispatch_->address;
    expected = expected_;
    const size_t index = static_cast<size_t>(response.index());
    if (index < choices_.size()) {
      choices_[index].next_token = response.first_token() + tokens;
      if (response.has_finish()) choices_[index].finish = response.finish().reason();
    }
  }
  parts_.metrics.OnRelayed(tokens);
  if (first_token.has_value() && call_.request.output().delivery() != v1::DELIVERY_FINAL_ONLY) {
    const std::chrono::duration<double, std::milli> expected_ttft(expected.ttft_ms);
    parts_.metrics.OnFirstToken(*first_token - std::chrono::duration_cast<Duration>(expected_ttft));
  }
  if (response.has_usage()) {
    parts_.metrics.OnHits(worker, {.prompt = prompt_tokens_,
                                   .expected = expected.hit_tokens,
                                   .found = response.usage().cached_tokens()});
    LogOutcome(worker, expected, response.usage().cached_tokens());
  }
  // Its name among us: the worker does not know it.
  if (response.has_timings()) response.mutable_timings()->add_workers(worker);
  if (!wants_token_ids_) response.clear_token_ids();
  sink_->OnResponse(std::move(response), tokens);
}

void Stream::OnEnd(int number, const absl::Status& status, uint64_t load_version,
                   std::optional<Redirect> redirect) {
  std::optional<Dispatch> ended;  // leaves the ledger outside the lock
  absl::Status end = status;
  bool again = false;
  std::vector<v1::GenerateResponse> last_words;
  {
    MutexLock lock(mu_);
    if (number != attempt_ || !dispatch_.has_value()) return;
    ended = std::move(dispatch_);
    dispatch_.reset();
    again = MayTryAgain(status, redirect.has_value());
    if (!again && IsWorkerLost(status) && passed_on_) {
      // All that is missing of a whole answer is the worker's word that there is no more.
      if (IsAnswered()) end = absl::OkStatus();
      last_words = LastWords(ended->address);
    }
  }
  if (redirect.has_value()) {
    parts_.metrics.OnRedirect(*redirect == Redirect::kDraining ? "draining" : "full");
  }
  if (IsDraining(status)) parts_.cluster.MarkDraining(ended->entry.worker());
  parts_.cluster.End(*std::move(ended), load_version);
  if (again) return TryWorkers(status);
  for (v1::GenerateResponse& response : last_words) sink_->OnResponse(std::move(response), 0);
  Finish(end);
}

bool Stream::MayTryAgain(const absl::Status& status, bool redirected) {
  if (passed_on_ || cancelled_) return false;
  if (IsWorkerLost(status)) return ++losses_ < kMostLosses;
  // A worker of an earlier release does not say that another may take it.
  redirected |= !accepted_ && (absl::IsUnavailable(status) || absl::IsResourceExhausted(status));
  return redirected && ++redirects_ <= kMostRedirects;
}

bool Stream::IsAnswered() const {
  return std::all_of(choices_.begin(), choices_.end(), [](const Choice& choice) {
    return choice.finish == v1::FINISH_REASON_STOP || choice.finish == v1::FINISH_REASON_LENGTH;
  });
}

std::vector<v1::GenerateResponse> Stream::LastWords(const std::string& worker) {
  std::vector<v1::GenerateResponse> responses;
  int32_t completion_tokens = 0;
  for (size_t i = 0; i < choices_.size(); ++i) {
    completion_tokens += choices_[i].next_token;
    if (choices_[i].finish != v1::FINISH_REASON_UNSPECIFIED) continue;
    v1::GenerateResponse& response = responses.emplace_back();
    response.set_request_id(call_.request.request_id());
    response.set_index(static_cast<int32_t>(i));
    response.set_first_token(choices_[i].next_token);
    response.mutable_finish()->set_reason(v1::FINISH_REASON_ERROR);
  }
  if (responses.empty()) return responses;
  v1::GenerateResponse& last = responses.back();
  last.mutable_usage()->set_prompt_tokens(prompt_tokens_);
  last.mutable_usage()->set_completion_tokens(completion_tokens);
  last.mutable_timings()->add_workers(worker);
  last.set_seed(call_.request.sampling().seed());
  return responses;
}

}  // namespace qanat::router
