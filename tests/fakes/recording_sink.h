// A token sink that keeps what it is told, and holds the engine to its promises.
#pragma once

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "worker/engine/request.h"

namespace qanat::fakes {

// Aborts on a gap or a repeat in the output, a second end, and tokens after the end. Threads: any.
class RecordingSink : public engine::TokenSink {
 public:
  void OnTokens(int32_t first, absl::Span<const TokenId> tokens,
                absl::Span<const sampling::ScoredToken> scores) override EXCLUDES(mu_) {
    MutexLock lock(mu_);
    QANAT_CHECK(!outcome_.has_value()) << "tokens after the end";
    QANAT_CHECK(first == static_cast<int32_t>(tokens_.size()) && !tokens.empty());
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    scores_.insert(scores_.end(), scores.begin(), scores.end());
    QANAT_CHECK(scores_.empty() || scores_.size() == tokens_.size());
  }
  void OnPromptScores(int32_t first, absl::Span<const sampling::ScoredToken> scores) override EXCLUDES(mu_) {
    MutexLock lock(mu_);
    QANAT_CHECK(!outcome_.has_value() && tokens_.empty() && !scores.empty());
    QANAT_CHECK(first == static_cast<int32_t>(prompt_scores_.size()) + 1);
    prompt_scores_.insert(prompt_scores_.end(), scores.begin(), scores.end());
  }
  void OnEnd(const engine::Outcome& outcome) override EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      QANAT_CHECK(!outcome_.has_value()) << "a second end";
      outcome_ = outcome;
    }
    ended_.NotifyAll();
  }

  bool ended() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return outcome_.has_value();
  }
  std::vector<TokenId> tokens() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return tokens_;
  }
  std::vector<sampling::ScoredToken> scores() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return scores_;
  }
  std::vector<sampling::ScoredToken> prompt_scores() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return prompt_scores_;
  }
  // REQUIRES: ended().
  engine::Outcome outcome() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return outcome_.value();
  }
  engine::Outcome WaitForEnd() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!outcome_.has_value()) ended_.Wait(mu_);
    return *outcome_;
  }

 private:
  mutable Mutex mu_;
  CondVar ended_;
  std::vector<TokenId> tokens_ GUARDED_BY(mu_);
  std::vector<sampling::ScoredToken> scores_ GUARDED_BY(mu_);
  std::vector<sampling::ScoredToken> prompt_scores_ GUARDED_BY(mu_);
  std::optional<engine::Outcome> outcome_ GUARDED_BY(mu_);
};

}  // namespace qanat::fakes
