#include "worker/service/answer.h"

#include <algorithm>
#include <utility>

namespace qanat::service {
namespace {

// Of an id, or of what a message puts before an entry, at most.
constexpr size_t kEntryBytes = 6;

}  // namespace

Answer::Answer(const text::Tokenizer& tokenizer, AnswerOptions options)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      detokenizer_(tokenizer),
      matcher_(options_.stops, options_.include_stop) {}

v1::TokenLogprob Answer::ToProto(const sampling::ScoredToken& score) const {
  const auto fill = [this](const sampling::TokenLogprob& from, v1::TokenLogprob& to) {
    to.set_token_id(from.token);
    to.set_logprob(from.logprob);
    to.set_token(std::string(tokenizer_.Bytes(from.token)));
  };
  v1::TokenLogprob out;
  fill(score.chosen, out);
  for (const sampling::TokenLogprob& likely : score.likeliest) fill(likely, *out.add_alternatives());
  return out;
}

void Answer::CountEntry(const v1::TokenLogprob& entry) {
  pending_bytes_ += entry.ByteSizeLong() + kEntryBytes;
  pending_memory_ += entry.SpaceUsedLong();
}

void Answer::AppendPrompt(const sampling::ScoredToken& score) {
  v1::TokenLogprob& entry = *pending_.add_prompt_logprobs();
  entry = ToProto(score);
  CountEntry(entry);
}

void Answer::Append(TokenId id, const sampling::ScoredToken* score) {
  if (stopped()) return;
  ++num_tokens_;
  if (options_.token_ids) {
    pending_.add_token_ids(id);
    pending_bytes_ += kEntryBytes;
    pending_memory_ += sizeof(id);
  }
  if (options_.logprobs) {
    v1::TokenLogprob& entry = *pending_.add_logprobs();
    entry = ToProto(*score);
    CountEntry(entry);
  }
  const std::vector<TokenId>& ends = options_.stop_token_ids;
  if (std::binary_search(ends.begin(), ends.end(), id)) return EndAt(id);
  Feed(detokenizer_.Append(id));
}

// The token ends the answer whatever its text is: no stop string is looked for in that.
void Answer::EndAt(TokenId stop_token) {
  stop_token_ = stop_token;
  Release(matcher_.Flush());
  if (options_.include_stop) Release(detokenizer_.Append(stop_token));
  Release(detokenizer_.Flush());
}

void Answer::Finish() {
  if (stopped()) return;
  Feed(detokenizer_.Flush());
  Release(matcher_.Flush());
}

void Answer::Feed(const std::string& text) {
  if (!text.empty()) Release(matcher_.Feed(text, /*may_end=*/num_tokens_ >= options_.min_tokens).text);
}

void Answer::Release(const std::string& text) {
  pending_.mutable_text()->append(text);
  pending_bytes_ += text.size();
  pending_memory_ += text.size();
}

v1::GenerateResponse Answer::Take() {
  v1::GenerateResponse response = std::exchange(pending_, {});
  pending_bytes_ = 0;
  pending_memory_ = 0;
  response.set_first_token(covered_);
  covered_ = num_tokens_;
  return response;
}

}  // namespace qanat::service
