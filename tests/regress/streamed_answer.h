// An answer as it streams through detokenizer and stop matcher, with the real model's tokens.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/detokenizer.h"
#include "common/text/stop_matcher.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat {

// What each token releases, and the end.
struct StreamedAnswer {
  std::vector<std::string> pieces;
  std::string end;
  std::optional<int> stop;

  std::string Whole() const {
    std::string whole;
    for (const std::string& piece : pieces) whole += piece;
    return whole + end;
  }
};

inline StreamedAnswer StreamAnswer(std::string_view answer, std::vector<std::string> stops) {
  const text::Tokenizer& tokenizer = golden::RealTokenizer();
  text::Detokenizer detokenizer(tokenizer);
  text::StopMatcher matcher(std::move(stops));
  StreamedAnswer stream;
  for (const TokenId id : tokenizer.Encode(answer)) {
    stream.pieces.push_back(matcher.Feed(detokenizer.Append(id)).text);
    if (matcher.matched()) break;
  }
  stream.end = matcher.Feed(detokenizer.Flush()).text;
  stream.end += matcher.Flush();
  stream.stop = matcher.matched();
  return stream;
}

}  // namespace qanat
