// From token ids to the messages of one choice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/text/detokenizer.h"
#include "common/text/stop_matcher.h"
#include "common/text/tokenizer.h"
#include "qanat/v1/inference.pb.h"
#include "worker/engine/request.h"

namespace qanat::service {

struct AnswerOptions {
  std::vector<std::string> stops;
  std::vector<TokenId> stop_token_ids;  // ascending
  int32_t min_tokens = 0;     // a stop string that ends before so many tokens is text like any other
  bool include_stop = false;  // the text holds the stop string or token that ended it
  bool token_ids = false;     // messages hold ids
  bool logprobs = false;      // and the score of each token
};

// What: turns the output of one choice into GenerateResponses: whole characters only, nothing of a stop
// string, positions without gap or repeat. The text of a message is certain: it never changes by what comes
// later. Token ids, if asked for, are ready at once while text may wait for the rest of its character or of a
// possible stop; so are scores. Owns what is not yet taken; `tokenizer` outlives it. Threads: one at a time.
// Errors: none.
//
// Invariants
//  1 the messages taken cover tokens 0 .. covered_ - 1, each once
//  2 covered_ <= num_tokens_; after a stop both stay where the token stands that completed it
class Answer {
 public:
  Answer(const text::Tokenizer& tokenizer, AnswerOptions options);

  // The next token of the prompt that was scored. REQUIRES: nothing was appended yet.
  void AppendPrompt(const sampling::ScoredToken& score);
  // The next token of the output. Ignored after a stop: the answer has ended. REQUIRES: id is in the
  // vocabulary; `score` is not null if the answer holds logprobs.
  void Append(TokenId id, const sampling::ScoredToken* score = nullptr);

  // The answer has ended by other means than a stop: releases what was held back. A stop may still
  // turn up in the U+FFFD of a character that was never completed.
  void Finish();

  // A stop string or a stop token has ended it; at most one of the two below is set.
  bool stopped() const { return stop().has_value() || stop_token().has_value(); }
  // The index of the stop string that ended the answer.
  std::optional<int> stop() const { return matcher_.matched(); }
  std::optional<TokenId> stop_token() const { return stop_token_; }
  // Tokens that count: those up to the one that completed the stop.
  int32_t num_tokens() const { return num_tokens_; }
  // There is something to take: at most so many bytes of a message, and about so many of memory. Scores take
  // some ten times as much memory as they take bytes.
  bool HasNews() const { return pending_bytes_ > 0; }
  size_t pending_bytes() const { return pending_bytes_; }
  size_t pending_memory() const { return pending_memory_; }

  // Everything since the last call: first_token, text, token_ids, logprobs, prompt_logprobs.
  v1::GenerateResponse Take();

 private:
  v1::TokenLogprob ToProto(const sampling::ScoredToken& score) const;
  void CountEntry(const v1::TokenLogprob& entry);
  void Feed(const std::string& text);
  void Release(const std::string& text);
  void EndAt(TokenId stop_token);

  const text::Tokenizer& tokenizer_;
  const AnswerOptions options_;
  text::Detokenizer detokenizer_;
  text::StopMatcher matcher_;
  std::optional<TokenId> stop_token_;
  v1::GenerateResponse pending_;
  size_t pending_bytes_ = 0;
  size_t pending_memory_ = 0;
  int32_t num_tokens_ = 0;
  int32_t covered_ = 0;
};

}  // namespace qanat::service
