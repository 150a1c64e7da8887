#include "worker/service/answer.h"

#include <utility>

namespace qanat::service {

Answer::Answer(const text::Tokenizer& tokenizer, std::vector<std::string> stops, bool return_token_ids)
    : detokenizer_(tokenizer), matcher_(std::move(stops)), return_token_ids_(return_token_ids) {}

void Answer::Append(TokenId id) {
  if (stop().has_value()) return;
  ++num_tokens_;
  if (return_token_ids_) ids_.push_back(id);
  Feed(detokenizer_.Append(id));
}

void Answer::Finish() {
  if (stop().has_value()) return;
  Feed(detokenizer_.Flush());
  text_ += matcher_.Flush();
}

void Answer::Feed(const std::string& text) {
  if (!text.empty()) text_ += matcher_.Feed(text).text;
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
