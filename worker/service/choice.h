// One choice of a generation: what the engine tells of it, and what becomes of that.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "common/text/tokenizer.h"
#include "qanat/v1/inference.pb.h"
#include "worker/engine/request.h"
#include "worker/service/answer.h"

namespace qanat::service {

// What may wait for a reader.
struct ChoiceLimits {
  size_t message_bytes;  // of the message that is being made up
  size_t memory;         // that it takes
  int32_t tokens;        // that the engine told beyond, with or without scores
  int32_t prompt;        // the same of tokens of the prompt, before the first of the output
};

// What: keeps the engine's tokens until the transport works them up into an answer. Owns both; `tokenizer`
// outlives it. Threads: OnTokens, OnPromptScores and OnEnd are the engine's, and only move data; the rest is
// the transport's side, one thread at a time. Errors: none.
class Choice final : public engine::TokenSink {
 public:
  // `on_news` is called after each of the engine's calls, under no lock.
  Choice(const text::Tokenizer& tokenizer, AnswerOptions options, const ChoiceLimits& limits,
         std::function<void()> on_news)
      : limits_(limits), on_news_(std::move(on_news)), answer_(tokenizer, std::move(options)) {}

  void OnTokens(int32_t first, absl::Span<const TokenId> tokens,
                absl::Span<const sampling::ScoredToken> scores) override EXCLUDES(mu_);
  void OnPromptScores(int32_t first, absl::Span<const sampling::ScoredToken> scores) override EXCLUDES(mu_);
  int32_t Room() const override EXCLUDES(mu_);
  void OnPaused() override EXCLUDES(mu_);
  void OnEnd(const engine::Outcome& outcome) override EXCLUDES(mu_);

  // The reader takes nothing for now, or does again. Any thread.
  void SetReaderPaused(bool paused) EXCLUDES(mu_);
  // Whether its sequence, which the engine paused, should go on: there is room for a good deal. Once a pause.
  // Any thread.
  bool TakeResumption() EXCLUDES(mu_);

  // --- The transport's side ---
  // Works up what the engine has told, but leaves it alone while as much as may be waits to be taken. Returns
  // how many tokens it worked up.
  int32_t Advance() EXCLUDES(mu_);
  // Something was left alone.
  bool HasBacklog() const { return !backlog_.tokens.empty() || !backlog_.prompt_scores.empty(); }
  const Answer& answer() const { return answer_; }
  v1::GenerateResponse Take() { return answer_.Take(); }

  // The engine has ended it and all that it told before is in the answer.
  bool ended() const { return backlog_.outcome.has_value() && !HasBacklog(); }
  // Ends the answer, too. REQUIRES: ended().
  void Conclude();
  bool concluded() const { return outcome_.has_value(); }
  // As the caller sees it: a stop counts from where it was found. REQUIRES: concluded().
  const engine::Outcome& outcome() const { return *outcome_; }

 private:
  // News, in order: scores of the prompt, tokens, the end.
  struct News {
    std::vector<sampling::ScoredToken> prompt_scores;
    std::vector<TokenId> tokens;
    std::vector<sampling::ScoredToken> scores;  // of the tokens, or empty
    std::optional<engine::Outcome> outcome;
  };

  void TakeNews() EXCLUDES(mu_);
  int32_t LimitLocked() const REQUIRES(mu_) { return prompt_is_over_ ? limits_.tokens : limits_.prompt; }
  int32_t RoomLocked() const REQUIRES(mu_);

  const ChoiceLimits limits_;
  const std::function<void()> on_news_;
  mutable Mutex mu_;
  News inbox_ GUARDED_BY(mu_);
  size_t backlog_size_ GUARDED_BY(mu_) = 0;  // as of the last Advance
  bool prompt_is_over_ GUARDED_BY(mu_) = false;
  bool reader_paused_ GUARDED_BY(mu_) = false;  // the router asked for nothing more
  bool paused_ GUARDED_BY(mu_) = false;         // the engine computes nothing

  // Of the transport's side.
  News backlog_;  // taken from the inbox, not yet in the answer
  Answer answer_;
  std::optional<engine::Outcome> outcome_;
};

}  // namespace qanat::service
