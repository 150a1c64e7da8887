#include "worker/service/answer.h"

#include <algorithm>
#include <utility>

namespace qanat::service {

Answer::Answer(const text::Tokenizer& tokenizer, AnswerOptions options)
    : options_(std::move(options)),
      detokenizer_(tokenizer),
      matcher_(options_.stops, options_.include_stop) {}

void Answer::Append(TokenId id) {
  if (stopped()) return;
  ++num_tokens_;
  if (options_.token_ids) ids_.push_back(id);
  const std::vector<TokenId>& ends = options_.stop_token_ids;
  if (std::binary_search(ends.begin(), ends.end(), id)) return EndAt(id);
  Feed(detokenizer_.Append(id));
}

// The token ends the answer whatever its text is: no stop string is looked for in that.
void Answer::EndAt(TokenId stop_token) {
  stop_token_ = stop_token;
  text_ += matcher_.Flush();
  if (options_.include_stop) text_ += detokenizer_.Append(stop_token);
  text_ += detokenizer_.Flush();
}

void Answer::Finish() {
  if (stopped()) return;
  Feed(detokenizer_.Flush());
  text_ += matcher_.Flush();
}

void Answer::Feed(const std::string& text) {
  if (!text.empty()) text_ += matcher_.Feed(text, /*may_end=*/num_tokens_ >= options_.min_tokens).text;
}

v1::GenerateResponse Answer::Take() {
  v1::GenerateResponse response;
  response.set_first_token(covered_);
  covered_ = num_tokens_;
  response.set_text(std::exchange(text_, {}));
  *response.mutable_token_ids() = {ids_.begin(), ids_.end()};
  ids_.clear();
  return response;
}

}  // namespace qanat::service
