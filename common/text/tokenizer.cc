#include "common/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/text/byte_alphabet.h"
#include "common/text/byte_pair_merger.h"
#include "common/text/pre_tokenizer.h"
#include "common/text/special_tokens.h"
#include "common/text/utf8.h"

namespace qanat::text {
namespace {

using TokenIndex = absl::flat_hash_map<std::string_view, TokenId>;

absl::Status BadMerge(const Vocabulary& vocabulary, size_t rank, std::string_view reason) {
  const std::string shown = absl::Utf8SafeCHexEscape(vocabulary.merges[rank].substr(0, 80));
  return InvalidField("tokenizer.ggml.merges", absl::StrCat("merge ", rank, " (\"", shown, "\") ",
                                                            absl::string_view(reason.data(), reason.size())));
}

// The merges as ids.
absl::StatusOr<std::vector<BytePairMerger::Merge>> ParseMerges(const Vocabulary& vocabulary) {
  TokenIndex index;
  index.reserve(vocabulary.tokens.size());
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    index.emplace(vocabulary.tokens[i], static_cast<TokenId>(i));
  }
  std::vector<BytePairMerger::Merge> merges;
  merges.reserve(vocabulary.merges.size());
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const std::string_view text = vocabulary.merges[rank];
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == text.size() ||
        text.find(' ', space + 1) != std::string_view::npos) {
      return BadMerge(vocabulary, rank, "is not two tokens with a space between them");
    }
    const std::string_view left = text.substr(0, space);
    const std::string_view right = text.substr(space + 1);
    const std::string both = std::string(left).append(right);
    std::array<TokenId, 3> ids;
    for (size_t i = 0; const std::string_view part : {left, right, std::string_view(both)}) {
      const auto token = index.find(part);
      if (token == index.end()) return BadMerge(vocabulary, rank, "names a token that is absent");
      if (IsReserved(vocabulary.kinds[static_cast<size_t>(token->second)])) {
        return BadMerge(vocabulary, rank, "would let plain text make a control token");
      }
      ids[i++] = token->second;
    }
    merges.push_back({ids[0], ids[1], ids[2]});
  }
  return merges;
}

// The bytes of all tokens, one behind the other.
class TokenBytes {
 public:
  explicit TokenBytes(const Vocabulary& vocabulary) {
    ends_.reserve(vocabulary.tokens.size());
    for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
      if (vocabulary.kinds[i] == TokenKind::kUserDefined) {
        bytes_.append(vocabulary.tokens[i]);
      } else if (vocabulary.kinds[i] == TokenKind::kNormal) {
        // A text outside the alphabet, which no encoding leads to, stands for itself.
        bytes_.append(FromByteAlphabet(vocabulary.tokens[i]).value_or(vocabulary.tokens[i]));
      }
      ends_.push_back(bytes_.size());
    }
  }

  std::string_view operator[](TokenId id) const {
    const size_t i = static_cast<size_t>(id);
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string bytes_;
  std::vector<size_t> ends_;
};

// The normal tokens that are made of single bytes, and so may come out of encoding.
std::vector<TokenId> ByteLevelTokens(const Vocabulary& vocabulary) {
  std::vector<TokenId> ids;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (vocabulary.kinds[i] == TokenKind::kNormal && FromByteAlphabet(vocabulary.tokens[i]).has_value()) {
      ids.push_back(static_cast<TokenId>(i));
    }
  }
  return ids;
}

std::array<TokenId, 256> ByteIds(const std::vector<TokenId>& candidates, const TokenBytes& bytes) {
  std::array<TokenId, 256> ids;
  ids.fill(-1);
  for (const TokenId id : candidates) {
    if (bytes[id].size() == 1) ids[static_cast<uint8_t>(bytes[id][0])] = id;
  }
  return ids;
}

// A part of a text, from `begin` to `end`.
struct Range {
  size_t begin;
  size_t end;
};

}  // namespace

struct Tokenizer::Tables {
  Tables(const Vocabulary& vocabulary, PreTokenizer pre, std::vector<BytePairMerger::Merge> merges)
      : Tables(vocabulary, std::move(pre), std::move(merges), ByteLevelTokens(vocabulary)) {}

  TokenBytes bytes;
  PreTokenizer pre_tokenizer;
  SpecialTokens special;
  std::array<TokenId, 256> byte_ids;
  BytePairMerger merger;
  // Words that are one token: whatever is a token where the rules look whole words up first, else those that
  // merging would end at, so that most words of ordinary text need no merging.
  TokenIndex words;

 private:
  Tables(const Vocabulary& vocabulary, PreTokenizer pre, std::vector<BytePairMerger::Merge> merges,
         const std::vector<TokenId>& byte_level)
      : bytes(vocabulary),
        pre_tokenizer(std::move(pre)),
        special(vocabulary),
        byte_ids(ByteIds(byte_level, bytes)),
        merger(byte_ids, std::move(merges)) {
    words.reserve(byte_level.size());
    BytePairMerger::Scratch scratch;
    std::vector<TokenId> merged;
    for (const TokenId id : byte_level) {
      merged.clear();
      if (!pre_tokenizer.whole_words_first()) merger.Append(bytes[id], scratch, merged);
      if (pre_tokenizer.whole_words_first() || merged == std::vector<TokenId>{id})
        words.emplace(bytes[id], id);
    }
  }
};

// One call of Encode or EncodeSpans.
class Tokenizer::Encoding {
 public:
  explicit Encoding(const Tables& tables) : tables_(tables) {}

  // `reserved`: where reserved tokens are looked for; in order, not empty, neither touching nor overlapping.
  std::vector<TokenId> Run(std::string_view text, absl::Span<const Range> reserved) && {
    size_t plain = 0;  // text before it is encoded
    size_t at = 0;     // no special token begins between `plain` and here
    for (const Range& range : reserved) {
      FindSpecials(text, range.begin, 0, plain, at);
      FindSpecials(text, range.end, range.end, plain, at);
    }
    FindSpecials(text, text.size(), 0, plain, at);
    EncodePlain(text.substr(plain));
    return std::move(ids_);
  }

 private:
  // Encodes up to the last special token that begins before `to`.
  void FindSpecials(std::string_view text, size_t to, size_t reserved_end, size_t& plain, size_t& at) {
    while (const auto match = tables_.special.Find(text, at, to, reserved_end)) {
      EncodePlain(text.substr(plain, match->begin - plain));
      ids_.push_back(match->id);
      plain = at = match->end;
    }
    at = std::max(at, to);
  }

  // Text without special tokens. What is not UTF-8 is taken byte by byte.
  void EncodePlain(std::string_view text) {
    while (!text.empty()) {
      const size_t valid = ValidPrefix(text);
      if (valid > 0) {
        tables_.pre_tokenizer.Split(text.substr(0, valid),
                                    [this](std::string_view word) { EncodeWord(word); });
      }
      text.remove_prefix(valid);
      if (text.empty()) return;
      const size_t broken = NextUnit(text).length;
      for (size_t i = 0; i < broken; ++i) EncodeWord(text.substr(i, 1));
      text.remove_prefix(broken);
    }
  }

  void EncodeWord(std::string_view word) {
    const auto whole = tables_.words.find(word);
    if (whole != tables_.words.end()) {
      ids_.push_back(whole->second);
    } else {
      tables_.merger.Append(word, scratch_, ids_);
    }
  }

  const Tables& tables_;
  BytePairMerger::Scratch scratch_;
  std::vector<TokenId> ids_;
};

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(Vocabulary vocabulary) {
  QANAT_RETURN_IF_ERROR(CheckVocabulary(vocabulary));
  QANAT_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, PreTokenizer::Create(vocabulary.pre));
  QANAT_ASSIGN_OR_RETURN(std::vector<BytePairMerger::Merge> merges, ParseMerges(vocabulary));
  auto tables = std::make_unique<const Tables>(vocabulary, std::move(pre_tokenizer), std::move(merges));
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(vocabulary), std::move(tables)));
}

Tokenizer::Tokenizer(Vocabulary vocabulary, std::unique_ptr<const Tables> tables)
    : vocabulary_(std::move(vocabulary)), tables_(std::move(tables)) {}

Tokenizer::~Tokenizer() = default;

std::vector<TokenId> Tokenizer::Encode(std::string_view text) const {
  return Encoding(*tables_).Run(text, {});
}

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
  return Encoding(*tables_).Run(text, reserved);
}

std::string_view Tokenizer::Bytes(TokenId id) const {
  QANAT_DCHECK(id >= 0 && id < size());
  return tables_->bytes[id];
}

std::string Tokenizer::Decode(absl::Span<const TokenId> ids) const {
  std::string bytes;
  for (const TokenId id : ids) bytes.append(Bytes(id));
  return ReplaceInvalid(bytes);
}

bool Tokenizer::IsEndOfGeneration(TokenId id) const {
  return std::find(vocabulary_.eog.begin(), vocabulary_.eog.end(), id) != vocabulary_.eog.end();
}

bool Tokenizer::IsControl(TokenId id) const {
  return id >= 0 && id < size() && vocabulary_.kinds[static_cast<size_t>(id)] == TokenKind::kControl;
}

std::string Tokenizer::Fingerprint() const { return FingerprintOf(vocabulary_); }

}  // namespace qanat::text
