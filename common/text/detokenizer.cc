#include "common/text/detokenizer.h"

#include "common/text/utf8.h"

namespace qanat::text {

std::string Detokenizer::Append(TokenId id) {
  held_.append(tokenizer_.Bytes(id));
  std::string out;
  const size_t partial = AppendCharacters(held_, out);
  held_.erase(0, held_.size() - partial);
  return out;
}

std::string Detokenizer::Flush() {
  std::string out(held_.empty() ? std::string_view() : kReplacement);
  held_.clear();
  return out;
}

}  // namespace qanat::text
