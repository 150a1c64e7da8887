// Input: a byte that chooses the tokenizer, then text. A byte 1D in it begins a span of the template's, 1E
// one of the caller's.
//
// Laws, for any text:
//  1 what encodes is no reserved and no unused token, and as spans of the caller it encodes the same
//  2 where every byte has a token nothing is lost: the tokens' bytes are the text
//  3 control tokens are whole within what the template wrote; with their texts written out, 2 holds for spans
//  4 where a blank is put before a text decoding takes it away again
#include <algorithm>
#include <cstdint>

#include "common/text/utf8.h"
#include "tests/fuzz/fuzzed_tokenizers.h"

namespace qanat::fuzz {
namespace {

using text::TextSpan;
using text::TokenKind;

std::vector<TextSpan> ReadSpans(const uint8_t* data, size_t size) {
  std::vector<TextSpan> spans(1);
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == 0x1D || data[i] == 0x1E) {
      spans.push_back({"", data[i] == 0x1D});
    } else {
      spans.back().text.push_back(static_cast<char>(data[i]));
    }
  }
  return spans;
}

// A text and, for each of its bytes, whether the template wrote it.
struct Marked {
  std::string text;
  std::vector<bool> control;
};

Marked Join(const std::vector<TextSpan>& spans) {
  Marked marked;
  for (const TextSpan& span : spans) {
    marked.text += span.text;
    marked.control.insert(marked.control.end(), span.text.size(), span.control);
  }
  return marked;
}

// SentencePiece takes U+2581 for a blank.
Marked WithRealBlanks(const Marked& from) {
  constexpr std::string_view kBlank = "\u2581";
  Marked to;
  for (size_t i = 0; i < from.text.size(); ++i) {
    const bool blank = std::string_view(from.text).substr(i, kBlank.size()) == kBlank;
    to.text.push_back(blank ? ' ' : from.text[i]);
    to.control.push_back(!blank && from.control[i]);
    if (blank) i += kBlank.size() - 1;
  }
  return to;
}

TokenKind KindOf(const text::Tokenizer& tokenizer, TokenId id) {
  QANAT_CHECK(id >= 0 && id < tokenizer.size()) << id;
  return tokenizer.vocabulary().kinds[static_cast<size_t>(id)];
}

void CheckPlain(const FuzzedTokenizer& subject, const Marked& text, const std::vector<TokenId>& ids) {
  const text::Tokenizer& tokenizer = *subject.tokenizer;
  std::string bytes;
  bool user_defined = false;
  for (const TokenId id : ids) {
    const TokenKind kind = KindOf(tokenizer, id);
    QANAT_CHECK(!text::IsReserved(kind) && kind != TokenKind::kUnused) << id;
    user_defined |= kind == TokenKind::kUserDefined;
    bytes.append(tokenizer.Bytes(id));
  }
  if (!subject.complete) return;
  if (!tokenizer.drops_first_blank()) {
    QANAT_CHECK(bytes == text.text) << bytes;
  } else if (!user_defined) {
    // Behind a user-defined token stands another blank, which stays.
    QANAT_CHECK(tokenizer.Decode(ids) == text::ReplaceInvalid(text.text)) << bytes;
  }
}

void CheckSpans(const FuzzedTokenizer& subject, const Marked& text, const std::vector<TokenId>& ids) {
  const text::Tokenizer& tokenizer = *subject.tokenizer;
  if (!subject.complete || tokenizer.drops_first_blank()) return;
  std::string written;
  for (const TokenId id : ids) {
    const bool reserved = text::IsReserved(KindOf(tokenizer, id));
    const std::string_view token = reserved ? tokenizer.TokenText(id) : tokenizer.Bytes(id);
    QANAT_CHECK(written.size() + token.size() <= text.text.size());
    if (reserved) {
      const auto begin = text.control.begin() + static_cast<ptrdiff_t>(written.size());
      QANAT_CHECK(std::all_of(begin, begin + static_cast<ptrdiff_t>(token.size()), [](bool c) { return c; }))
          << "a caller wrote a part of " << token;
    }
    written.append(token);
  }
  QANAT_CHECK(written == text.text) << written;
}

void Run(const FuzzedTokenizer& subject, std::vector<TextSpan> spans) {
  const text::Tokenizer& tokenizer = *subject.tokenizer;
  const Marked joined = Join(spans);
  const bool blanks = tokenizer.vocabulary().model == "llama";
  const Marked text = blanks ? WithRealBlanks(joined) : joined;
  CheckSpans(subject, text, tokenizer.EncodeSpans(spans));
  const std::vector<TokenId> plain = tokenizer.Encode(joined.text);
  CheckPlain(subject, text, plain);
  for (TextSpan& span : spans) span.control = false;
  QANAT_CHECK(tokenizer.EncodeSpans(spans) == plain);
}

}  // namespace
}  // namespace qanat::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto& tokenizers = qanat::fuzz::FuzzedTokenizers();
  qanat::fuzz::Run(tokenizers[data[0] % tokenizers.size()], qanat::fuzz::ReadSpans(data + 1, size - 1));
  return 0;
}
