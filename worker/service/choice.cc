#include "worker/service/choice.h"

#include <iterator>
#include <utility>

#include "common/base/check.h"

namespace qanat::service {
namespace {

template <typename T>
void MoveTo(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  from.clear();
}

template <typename T>
void DropFront(std::vector<T>& from, size_t count) {
  from.erase(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace

void Choice::OnTokens(int32_t, absl::Span<const TokenId> tokens,
                      absl::Span<const sampling::ScoredToken> scores) {
  {
    MutexLock lock(mu_);
    prompt_is_over_ = true;
    inbox_.tokens.insert(inbox_.tokens.end(), tokens.begin(), tokens.end());
    inbox_.scores.insert(inbox_.scores.end(), scores.begin(), scores.end());
  }
  on_news_();
}

void Choice::OnPromptScores(int32_t, absl::Span<const sampling::ScoredToken> scores) {
  {
    MutexLock lock(mu_);
    inbox_.prompt_scores.insert(inbox_.prompt_scores.end(), scores.begin(), scores.end());
  }
  on_news_();
}

void Choice::OnEnd(const engine::Outcome& outcome) {
  {
    MutexLock lock(mu_);
    inbox_.outcome = outcome;
  }
  on_news_();
}

int32_t Choice::RoomLocked() const {
  if (reader_paused_) return 0;
  const size_t told = inbox_.tokens.size() + inbox_.prompt_scores.size() + backlog_size_;
  return LimitLocked() - static_cast<int32_t>(told);
}

int32_t Choice::Room() const {
  MutexLock lock(mu_);
  return RoomLocked();
}

void Choice::OnPaused() {
  {
    MutexLock lock(mu_);
    paused_ = true;
  }
  // The reader may have caught up since the engine looked.
  on_news_();
}

void Choice::SetReaderPaused(bool paused) {
  MutexLock lock(mu_);
  reader_paused_ = paused;
}

bool Choice::TakeResumption() {
  MutexLock lock(mu_);
  if (!paused_ || RoomLocked() < LimitLocked() / 2) return false;
  paused_ = false;
  return true;
}

void Choice::TakeNews() {
  MutexLock lock(mu_);
  MoveTo(backlog_.prompt_scores, inbox_.prompt_scores);
  MoveTo(backlog_.tokens, inbox_.tokens);
  MoveTo(backlog_.scores, inbox_.scores);
  if (inbox_.outcome.has_value()) backlog_.outcome = std::exchange(inbox_.outcome, std::nullopt);
}

int32_t Choice::Advance() {
  TakeNews();
  const auto has_room = [&] {
    return answer_.pending_bytes() < limits_.message_bytes && answer_.pending_memory() < limits_.memory;
  };
  size_t prompt = 0;
  while (prompt < backlog_.prompt_scores.size() && has_room()) {
    answer_.AppendPrompt(backlog_.prompt_scores[prompt++]);
  }
  DropFront(backlog_.prompt_scores, prompt);

  const int32_t before = answer_.num_tokens();
  size_t tokens = 0;
  while (tokens < backlog_.tokens.size() && !answer_.stopped() && has_room()) {
    answer_.Append(backlog_.tokens[tokens], backlog_.scores.empty() ? nullptr : &backlog_.scores[tokens]);
    ++tokens;
  }
  // Behind a stop: the engine ran ahead, and what it drew since is nobody's.
  if (answer_.stopped()) tokens = backlog_.tokens.size();
  DropFront(backlog_.tokens, tokens);
  if (!backlog_.scores.empty()) DropFront(backlog_.scores, tokens);
  {
    MutexLock lock(mu_);
    backlog_size_ = backlog_.tokens.size() + backlog_.prompt_scores.size();
  }
  return answer_.num_tokens() - before;
}

void Choice::Conclude() {
  QANAT_CHECK(ended() && !concluded());
  outcome_ = std::move(backlog_.outcome);
  // An answer that may go on elsewhere (ERROR) keeps back what another worker will say.
  if (outcome_->reason != engine::EndReason::kError) answer_.Finish();
  if (answer_.stopped()) outcome_->reason = engine::EndReason::kStop;
  outcome_->completion_tokens = answer_.num_tokens();
}

}  // namespace qanat::service
