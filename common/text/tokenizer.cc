#include "common/text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/text/utf8.h"

namespace qanat::text {
namespace {

// A part of a text, from `begin` to `end`.
struct Range {
  size_t begin;
  size_t end;
};

}  // namespace

// One call of Encode or EncodeSpans.
class Tokenizer::Encoding {
 public:
  explicit Encoding(const Tokenizer& tokenizer) : special_(tokenizer.special_), codec_(*tokenizer.codec_) {}

  // `reserved`: where reserved tokens are looked for; in order, not empty, neither touching nor overlapping.
  std::vector<TokenId> Run(std::string_view text, absl::Span<const Range> reserved) && {
    size_t plain = 0;  // text before it is encoded
    size_t at = 0;     // no special token begins between `plain` and here
    for (const Range& range : reserved) {
      FindSpecials(text, range.begin, 0, plain, at);
      FindSpecials(text, range.end, range.end, plain, at);
    }
    FindSpecials(text, text.size(), 0, plain, at);
    codec_.Encode(text.substr(plain), ids_);
    return std::move(ids_);
  }

 private:
  // Encodes up to the last special token that begins before `to`.
  void FindSpecials(std::string_view text, size_t to, size_t reserved_end, size_t& plain, size_t& at) {
    while (const auto match = special_.Find(text, at, to, reserved_end)) {
      codec_.Encode(text.substr(plain, match->begin - plain), ids_);
      ids_.push_back(match->id);
      plain = at = match->end;
    }
    at = std::max(at, to);
  }

  const SpecialTokens& special_;
  const TokenCodec& codec_;
  std::vector<TokenId> ids_;
};

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(Vocabulary vocabulary) {
  QANAT_ASSIGN_OR_RETURN(std::unique_ptr<const TokenCodec> codec, TokenCodec::Create(vocabulary));
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(vocabulary), std::move(codec)));
}

Tokenizer::Tokenizer(Vocabulary vocabulary, std::unique_ptr<const TokenCodec> codec)
    : vocabulary_(std::move(vocabulary)), special_(vocabulary_), codec_(std::move(codec)) {}

std::vector<TokenId> Tokenizer::Encode(std::string_view text) const { return Encoding(*this).Run(text, {}); }

std::vector<TokenId> Tokenizer::EncodeSpans(absl::Span<const TextSpan> spans) const {
  std::string text;
  std::vector<Range> reserved;
  for (const TextSpan& span : spans) {
    const size_t begin = text.size();
    text.append(span.text);
    if (!span.control || span.text.empty()) continue;
    if (!reserved.empty() && reserved.back().end == begin) {
      reserved.back().end = text.size();
    } else {
      reserved.push_back({begin, text.size()});
    }
  }
  return Encoding(*this).Run(text, reserved);
}

std::string_view Tokenizer::Bytes(TokenId id) const {
  QANAT_DCHECK(id >= 0 && id < size());
  return codec_->Bytes(id);
}

std::string Tokenizer::Decode(absl::Span<const TokenId> ids) const {
  std::string bytes;
  for (const TokenId id : ids) bytes.append(Bytes(id));
  const bool drop = drops_first_blank() && !bytes.empty() && bytes[0] == ' ';
  return ReplaceInvalid(std::string_view(bytes).substr(drop ? 1 : 0));
}

bool Tokenizer::IsControl(TokenId id) const {
  return id >= 0 && id < size() && vocabulary_.kinds[static_cast<size_t>(id)] == TokenKind::kControl;
}

}  // namespace qanat::text
