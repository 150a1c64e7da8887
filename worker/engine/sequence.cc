#include "worker/engine/sequence.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace qanat::engine {
namespace {

Time DueAt(const Request& request, Time arrival, const EngineOptions& options) {
  const Time by_class = arrival + options.class_defaults[static_cast<size_t>(request.priority)];
  return request.deadline.has_value() ? std::min(*request.deadline, by_class) : by_class;
}

int32_t MaxTotalTokens(const Request& request, const EngineOptions& options) {
  const int64_t asked = static_cast<int64_t>(request.prompt.size()) + request.max_tokens;
  return static_cast<int32_t>(std::min<int64_t>(asked, options.context_length));
}

}  // namespace

Sequence::Sequence(SequenceId id, Request request, Time arrival, const EngineOptions& options,
                   kv::BlockTable table, uint32_t choice)
    : request_(std::move(request)),
      num_prompt_tokens_(static_cast<int32_t>(request_.prompt.size())),
      max_total_tokens_(MaxTotalTokens(request_, options)),
      arrival_(arrival),
      order_{request_.priority, DueAt(request_, arrival, options), id},
      choice_(choice),
      held_(choice > 0),
      table_(std::move(table)),
      num_scored_(request_.prompt_logprobs.has_value() ? 1 : num_prompt_tokens_) {
  tokens_ = std::move(request_.prompt);
  QANAT_CHECK(num_prompt_tokens_ > 0 && num_prompt_tokens_ < max_total_tokens_);
  if (request_.rules != nullptr && request_.rules->repetition_penalty != 1) {
    for (const TokenId token : tokens_) token_counts_.try_emplace(token, 0);
  }
}

void Sequence::Admit(int32_t num_cached, Time now) {
  QANAT_CHECK(state_ == State::kWaiting);
  QANAT_CHECK(num_cached < num_tokens()) << "one token must be computed";
  state_ = State::kRunning;
  num_computed_ = num_cached;
  num_admitted_tokens_ = num_tokens();
  if (paused_since_.has_value()) {
    paused_ += now - *paused_since_;
    paused_since_.reset();
  }
  if (first_scheduled_.has_value()) return;
  first_scheduled_ = now;
  num_cached_tokens_ = num_cached;
}

Sequence::Scored Sequence::ScoredBy(int32_t from, int32_t n) const {
  const int32_t first = std::min(std::max(num_scored_, from + 1), num_prompt_tokens_);
  return {first, std::max(first, std::min(from + n + 1, num_prompt_tokens_))};
}

int32_t Sequence::LogitRows(int32_t from, int32_t n) const {
  return scores_prompt(from) ? std::clamp(from + n - first_scoring(from), 0, n) : 1;
}

void Sequence::Launch(int32_t tokens, bool draws, int32_t drafts) {
  QANAT_CHECK(state_ == State::kRunning && tokens > 0 && tokens <= num_missing() && flying_.drafts == 0);
  ++flying_.steps;
  flying_.tokens += tokens;
  flying_.draws += draws ? 1 : 0;
  flying_.drafts = drafts;
}

void Sequence::Collect(int32_t tokens, bool draws, int32_t drafts) {
  QANAT_CHECK(state_ == State::kRunning && flying_.steps > 0);
  --flying_.steps;
  flying_.tokens -= tokens;
  flying_.draws -= draws ? 1 : 0;
  flying_.drafts -= drafts;
}

int32_t Sequence::Advance(int32_t n) {
  QANAT_CHECK(state_ == State::kRunning && n > 0 && n <= num_tokens() - num_computed_);
  const Scored scored = ScoredBy(num_computed_, n);
  num_scored_ += scored.end - scored.first;
  const int32_t lost_from = std::max(lost_first_, num_computed_);
  num_computed_ += n;
  const int32_t again = std::max(0, std::min(lost_end_, num_computed_) - lost_from);
  lost_first_ = std::max(lost_first_, num_computed_);
  max_computed_ = std::max(max_computed_, num_computed_);
  num_recomputed_ += again;
  return again;
}

std::optional<EndReason> Sequence::Append(TokenId token, Time now) {
  QANAT_CHECK(state_ == State::kRunning && num_computed_ == num_tokens() && num_tokens() < max_total_tokens_);
  tokens_.push_back(token);
  if (request_.rules != nullptr && request_.rules->penalizes()) ++token_counts_[token];
  // A pause that no token follows is no part of what it took.
  (first_token_.has_value() ? paused_in_decode_ : paused_in_prefill_) += std::exchange(paused_, {});
  if (!first_token_.has_value()) first_token_ = now;
  last_token_ = now;
  const std::vector<TokenId>& ends = request_.end_tokens;
  if (std::find(ends.begin(), ends.end(), token) != ends.end()) return EndReason::kStop;
  if (num_tokens() == max_total_tokens_) return EndReason::kLength;
  return std::nullopt;
}

void Sequence::Tell(int32_t position) {
  QANAT_CHECK(position == num_told_ && position < num_output_tokens()) << "a gap or a repeat in the output";
  ++num_told_;
}

void Sequence::StopRunning(State next) {
  QANAT_CHECK(state_ == State::kRunning && table_.size() == 0);
  state_ = next;
  num_computed_ = 0;
  flying_ = {};
  // It is longer than the history, and soon made again.
  prompt_lookup_.reset();
}

void Sequence::Preempt() {
  const bool some_lost = lost_first_ < lost_end_;
  lost_end_ = some_lost ? std::max(lost_end_, num_computed_) : num_computed_;
  lost_first_ = 0;
  StopRunning(State::kWaiting);
  ++num_preemptions_;
}

void Sequence::StartOver() { StopRunning(State::kWaiting); }

void Sequence::Pause(Time now) {
  StopRunning(State::kPaused);
  paused_since_ = now;
}

void Sequence::Resume() {
  QANAT_CHECK(state_ == State::kPaused);
  state_ = State::kWaiting;
}

Outcome Sequence::End(EndReason reason, absl::Status status, Time now) {
  QANAT_CHECK(state_ != State::kEnded && table_.size() == 0);
  state_ = State::kEnded;
  num_computed_ = 0;
  flying_ = {};
  Outcome outcome;
  outcome.reason = reason;
  outcome.status = std::move(status);
  outcome.prompt_tokens = num_prompt_tokens_;
  outcome.cached_tokens = num_cached_tokens_;
  outcome.completion_tokens = num_output_tokens();
  if (first_scheduled_.has_value()) outcome.queue = *first_scheduled_ - arrival_;
  if (first_token_.has_value()) {
    outcome.prefill = *first_token_ - *first_scheduled_;
    outcome.decode = *last_token_ - *first_token_;
  }
  outcome.preemptions = num_preemptions_;
  outcome.recomputed_tokens = num_recomputed_;
  return outcome;
}

PromptLookup& Sequence::prompt_lookup() {
  if (prompt_lookup_ == nullptr) prompt_lookup_ = std::make_unique<PromptLookup>();
  return *prompt_lookup_;
}

void Sequence::CheckInvariants() const {
  QANAT_CHECK(!scores_prompt(num_launched()) || num_scored_ > num_computed_);
  if (state_ == State::kRunning) {
    QANAT_CHECK(num_computed_ >= 0 && num_computed_ < num_tokens());
    QANAT_CHECK(num_expected() <= max_total_tokens_ && num_missing() >= 0);
    QANAT_CHECK(flying_.steps > 0 || (flying_.tokens == 0 && flying_.draws == 0 && flying_.drafts == 0));
  } else {
    QANAT_CHECK(num_computed_ == 0 && table_.size() == 0) << "only what runs owns blocks";
    QANAT_CHECK(flying_.steps == 0);
  }
}

}  // namespace qanat::engine
