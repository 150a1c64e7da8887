#include "common/text/byte_level_codec.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/text/byte_alphabet.h"
#include "common/text/byte_pair_merger.h"
#include "common/text/pre_tokenizer.h"
#include "common/text/token_bytes.h"
#include "common/text/utf8.h"

namespace qanat::text {
namespace {

using TokenIndex = absl::flat_hash_map<std::string_view, TokenId>;

absl::Status CheckKinds(const Vocabulary& vocabulary) {
  for (size_t id = 0; id < vocabulary.kinds.size(); ++id) {
    // A byte of SentencePiece has no meaning among byte-level pieces.
    if (vocabulary.kinds[id] == TokenKind::kByte) {
      return InvalidField("tokenizer.ggml.token_type",
                          absl::StrCat("token ", id, " has type 6, which gpt2 does not have"));
    }
  }
  return absl::OkStatus();
}

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

TokenBytes BytesOf(const Vocabulary& vocabulary) {
  TokenBytes bytes;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string& token = vocabulary.tokens[i];
    if (vocabulary.kinds[i] == TokenKind::kNormal) {
      // A text outside the alphabet, which no encoding leads to, stands for itself.
      bytes.Add(FromByteAlphabet(token).value_or(token));
    } else {
      bytes.Add(vocabulary.kinds[i] == TokenKind::kUserDefined ? std::string_view(token) : "");
    }
  }
  return bytes;
}

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

class ByteLevelCodec : public TokenCodec {
 public:
  ByteLevelCodec(const Vocabulary& vocabulary, PreTokenizer pre, std::vector<BytePairMerger::Merge> merges)
      : ByteLevelCodec(vocabulary, std::move(pre), std::move(merges), ByteLevelTokens(vocabulary)) {}

  void Encode(std::string_view text, std::vector<TokenId>& out) const override {
    BytePairMerger::Scratch scratch;
    const auto encode_word = [&](std::string_view word) { EncodeWord(word, scratch, out); };
    ForEachRun(
        text, [&](std::string_view valid) { pre_tokenizer_.Split(valid, encode_word); }, encode_word);
  }

  std::string_view Bytes(TokenId id) const override { return bytes_[id]; }
  bool adds_blank() const override { return false; }

 private:
  ByteLevelCodec(const Vocabulary& vocabulary, PreTokenizer pre, std::vector<BytePairMerger::Merge> merges,
                 const std::vector<TokenId>& byte_level)
      : bytes_(BytesOf(vocabulary)),
        pre_tokenizer_(std::move(pre)),
        merger_(ByteIds(byte_level, bytes_), std::move(merges)) {
    words_.reserve(byte_level.size());
    BytePairMerger::Scratch scratch;
    std::vector<TokenId> merged;
    for (const TokenId id : byte_level) {
      merged.clear();
      if (!pre_tokenizer_.whole_words_first()) merger_.Append(bytes_[id], scratch, merged);
      if (pre_tokenizer_.whole_words_first() || merged == std::vector<TokenId>{id})
        words_.emplace(bytes_[id], id);
    }
  }

  void EncodeWord(std::string_view word, BytePairMerger::Scratch& scratch, std::vector<TokenId>& out) const {
    const auto whole = words_.find(word);
    if (whole != words_.end()) {
      out.push_back(whole->second);
    } else {
      merger_.Append(word, scratch, out);
    }
  }

  TokenBytes bytes_;
  PreTokenizer pre_tokenizer_;
  BytePairMerger merger_;
  // Words that are one token: whatever is a token where the rules look whole words up first, else those that
  // merging would end at, so that most words of ordinary text need no merging.
  TokenIndex words_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const TokenCodec>> CreateByteLevelCodec(const Vocabulary& vocabulary) {
  QANAT_RETURN_IF_ERROR(CheckKinds(vocabulary));
  QANAT_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, PreTokenizer::Create(vocabulary.pre));
  QANAT_ASSIGN_OR_RETURN(std::vector<BytePairMerger::Merge> merges, ParseMerges(vocabulary));
  return std::make_unique<const ByteLevelCodec>(vocabulary, std::move(pre_tokenizer), std::move(merges));
}

}  // namespace qanat::text
