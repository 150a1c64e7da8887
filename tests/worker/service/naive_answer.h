// What an answer has to be, found the naive way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/text/tokenizer.h"
#include "common/text/utf8.h"
#include "worker/service/answer.h"

namespace qanat::service {

struct NaiveAnswer {
  std::string text;
  int32_t num_tokens = 0;
  bool by_string = false;
  bool by_token = false;
};

// Where the first stop lies that ends behind the first `seen` bytes, the longest of those that end there.
inline std::optional<std::pair<size_t, size_t>> FindStop(const std::string& text, size_t seen,
                                                         const std::vector<std::string>& stops) {
  for (size_t end = seen + 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return std::pair(end - longest, end);
  }
  return std::nullopt;
}

// The naive way: decode every prefix as a whole and look for a stop that ends in what the last token added. A
// partial character at the end of a prefix is not text yet.
inline NaiveAnswer AnswerNaively(const text::Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                                 const AnswerOptions& options) {
  std::string raw;
  std::string before;
  for (size_t n = 1; n <= ids.size() + 1; ++n) {
    const bool at_end = n > ids.size();
    const auto count = static_cast<int32_t>(std::min(n, ids.size()));
    const auto& ends = options.stop_token_ids;
    const bool by_token = !at_end && std::find(ends.begin(), ends.end(), ids[n - 1]) != ends.end();
    if (!at_end && (!by_token || options.include_stop)) raw += std::string(tokenizer.Bytes(ids[n - 1]));
    std::string text;
    const size_t partial = text::AppendCharacters(raw, text);
    if ((at_end || by_token) && partial > 0) text += text::kReplacement;
    if (by_token) return {text, count, false, true};
    if (count >= options.min_tokens) {
      if (const auto stop = FindStop(text, before.size(), options.stops)) {
        return {text.substr(0, options.include_stop ? stop->second : stop->first), count, true, false};
      }
    }
    if (at_end) return {text, count, false, false};
    before = text;
  }
  return {};
}

}  // namespace qanat::service
