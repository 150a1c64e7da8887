#include "common/text/sentence_piece_codec.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/text/score_merger.h"
#include "common/text/token_bytes.h"
#include "common/text/utf8.h"

namespace qanat::text {
namespace {

constexpr absl::string_view kBlank = "\u2581";  // how a piece writes it

absl::Status CheckScores(const Vocabulary& vocabulary) {
  constexpr std::string_view kKey = "tokenizer.ggml.scores";
  if (vocabulary.scores.size() != vocabulary.tokens.size()) {
    return InvalidField(
        kKey, absl::StrCat(vocabulary.scores.size(), " scores for ", vocabulary.tokens.size(), " tokens"));
  }
  for (size_t id = 0; id < vocabulary.scores.size(); ++id) {
    if (std::isnan(vocabulary.scores[id])) {
      return InvalidField(kKey, absl::StrCat("the score of token ", id, " is not a number"));
    }
  }
  return absl::OkStatus();
}

// The byte that "<0x0A>" stands for.
std::optional<char> ByteOf(std::string_view token) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return std::nullopt;
  const size_t high = kDigits.find(token[3]);
  const size_t low = kDigits.find(token[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
  return static_cast<char>(high << 4 | low);
}

absl::Status CheckBytes(const Vocabulary& vocabulary) {
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.kinds[id] != TokenKind::kByte || ByteOf(vocabulary.tokens[id]).has_value()) continue;
    const std::string shown = absl::Utf8SafeCHexEscape(vocabulary.tokens[id].substr(0, 40));
    return InvalidField(
        "tokenizer.ggml.tokens",
        absl::StrCat("token ", id, " (\"", shown, "\") has type 6, but is none of <0x00> to <0xFF>"));
  }
  return absl::OkStatus();
}

std::string BytesOf(const std::string& token, TokenKind kind) {
  switch (kind) {
    case TokenKind::kNormal:
      return absl::StrReplaceAll(token, {{kBlank, " "}});
    case TokenKind::kUserDefined:
      return token;
    case TokenKind::kByte:
      return std::string(1, *ByteOf(token));
    case TokenKind::kUnknown:
    case TokenKind::kControl:
    case TokenKind::kUnused:
      break;
  }
  return "";
}

TokenBytes BytesOf(const Vocabulary& vocabulary) {
  TokenBytes bytes;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    bytes.Add(BytesOf(vocabulary.tokens[i], vocabulary.kinds[i]));
  }
  return bytes;
}

// The pieces as texts have them once their blanks are real ones. A piece that is written with a real blank
// stands for no text.
std::vector<ScoreMerger::Piece> PiecesOf(const Vocabulary& vocabulary, const TokenBytes& bytes) {
  std::vector<ScoreMerger::Piece> pieces;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (vocabulary.kinds[i] != TokenKind::kNormal) continue;
    if (vocabulary.tokens[i].find(' ') != std::string::npos) continue;
    const TokenId id = static_cast<TokenId>(i);
    pieces.push_back({bytes[id], id, vocabulary.scores[i]});
  }
  return pieces;
}

std::array<TokenId, 256> ByteIds(const Vocabulary& vocabulary, const TokenBytes& bytes) {
  std::array<TokenId, 256> ids;
  ids.fill(-1);
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const TokenId id = static_cast<TokenId>(i);
    if (vocabulary.kinds[i] == TokenKind::kByte) ids[static_cast<uint8_t>(bytes[id][0])] = id;
  }
  return ids;
}

class SentencePieceCodec : public TokenCodec {
 public:
  explicit SentencePieceCodec(const Vocabulary& vocabulary)
      : bytes_(BytesOf(vocabulary)),
        merger_(PiecesOf(vocabulary, bytes_), ByteIds(vocabulary, bytes_)),
        adds_blank_(vocabulary.add_space_prefix) {}

  void Encode(std::string_view text, std::vector<TokenId>& out) const override {
    if (text.empty()) return;
    const std::string whole = absl::StrReplaceAll(
        absl::StrCat(adds_blank_ ? " " : "", absl::string_view(text.data(), text.size())), {{kBlank, " "}});
    ScoreMerger::Scratch scratch;
    ForEachRun(
        whole, [&](std::string_view valid) { merger_.Append(valid, scratch, out); },
        [&](std::string_view byte) { merger_.AppendByte(byte[0], out); });
  }

  std::string_view Bytes(TokenId id) const override { return bytes_[id]; }
  bool adds_blank() const override { return adds_blank_; }

 private:
  const TokenBytes bytes_;
  const ScoreMerger merger_;
  const bool adds_blank_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const TokenCodec>> CreateSentencePieceCodec(const Vocabulary& vocabulary) {
  QANAT_RETURN_IF_ERROR(CheckScores(vocabulary));
  QANAT_RETURN_IF_ERROR(CheckBytes(vocabulary));
  return std::make_unique<const SentencePieceCodec>(vocabulary);
}

}  // namespace qanat::text
