#include "common/text/detokenizer.h"

#include <string_view>
#include <utility>

#include "common/text/utf8.h"

namespace qanat::text {

std::string Detokenizer::Append(TokenId id) {
  std::string_view bytes = tokenizer_.Bytes(id);
  if (bytes.empty()) return "";
  if (std::exchange(at_start_, false) && tokenizer_.drops_first_blank() && bytes[0] == ' ') {
    bytes.remove_prefix(1);
  }
  held_.append(bytes);
  std::string out;
  const size_t partial = AppendCharacters(held_, out);
  held_.erase(0, held_.size() - partial);
  return out;
}

std::string Detokenizer::Flush() {
  std::string out(held_.empty() ? std::string_view() : kReplacement);
  held_.clear();
  at_start_ = true;
  return out;
}

}  // namespace qanat::text
