// Input: a byte that chooses the tokenizer; two stop strings, each a byte for its length and as many more;
// then token ids of two bytes each.
//
// Laws, for any ids:
//  1 every piece of a stream is valid UTF-8, and joined they are the decoded whole
//  2 at most 3 bytes are held back
//  3 a stop string ends the stream where it ends the whole
#include <cstdint>
#include <string>
#include <vector>

#include "common/text/detokenizer.h"
#include "common/text/stop_matcher.h"
#include "common/text/utf8.h"
#include "tests/fuzz/fuzzed_tokenizers.h"

namespace qanat::fuzz {
namespace {

// Takes bytes from the front of an input; zeros behind its end.
class Reader {
 public:
  Reader(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool empty() const { return size_ == 0; }
  uint8_t Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  std::string Text(size_t length) {
    std::string text;
    while (text.size() < length && !empty()) text.push_back(static_cast<char>(Byte()));
    return text;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

struct Heard {
  std::string text;
  std::optional<int> stop;

  bool operator==(const Heard&) const = default;
};

Heard HearWhole(const std::string& text, const std::vector<std::string>& stops) {
  text::StopMatcher matcher(stops);
  std::string heard = matcher.Feed(text).text;
  heard += matcher.Flush();
  return {heard, matcher.matched()};
}

Heard HearPieces(const std::vector<std::string>& pieces, const std::vector<std::string>& stops) {
  text::StopMatcher matcher(stops);
  std::string heard;
  for (const std::string& piece : pieces) heard += matcher.Feed(piece).text;
  heard += matcher.Flush();
  return {heard, matcher.matched()};
}

void Run(Reader input) {
  const auto& tokenizers = FuzzedTokenizers();
  const text::Tokenizer& tokenizer = *tokenizers[input.Byte() % tokenizers.size()].tokenizer;
  std::vector<std::string> stops;
  for (int i = 0; i < 2; ++i) {
    std::string stop = input.Text(input.Byte() % 8u);
    if (!stop.empty()) stops.push_back(std::move(stop));
  }
  std::vector<TokenId> ids;
  std::vector<std::string> pieces;
  text::Detokenizer detokenizer(tokenizer);
  while (!input.empty()) {
    const int number = input.Byte() << 8;
    ids.push_back((number | input.Byte()) % tokenizer.size());
    pieces.push_back(detokenizer.Append(ids.back()));
    QANAT_CHECK(detokenizer.held_bytes() <= 3);
  }
  pieces.push_back(detokenizer.Flush());

  std::string joined;
  for (const std::string& piece : pieces) {
    QANAT_CHECK(text::IsValidUtf8(piece)) << piece;
    joined += piece;
  }
  const std::string whole = tokenizer.Decode(ids);
  QANAT_CHECK(joined == whole) << joined << " is not " << whole;
  QANAT_CHECK(HearPieces(pieces, stops) == HearWhole(whole, stops)) << whole;
}

}  // namespace
}  // namespace qanat::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  qanat::fuzz::Run(qanat::fuzz::Reader(data, size));
  return 0;
}
