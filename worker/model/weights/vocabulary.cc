#include "worker/model/weights/vocabulary.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace qanat::model {
namespace {

using text::TokenKind;
using text::Vocabulary;

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kEmbedding = "token_embd.weight";

absl::StatusOr<uint64_t> ReadCount(const GgufFile& file) {
  QANAT_ASSIGN_OR_RETURN(const uint64_t count, file.GetArraySize(kTokens));
  const GgufTensor* embedding = file.FindTensor(kEmbedding);
  if (embedding == nullptr) return file.Error(kEmbedding, "missing tensor");
  if (count != static_cast<uint64_t>(embedding->rows())) {
    return file.Error(kTokens,
                      absl::StrCat(count, " tokens, but token_embd.weight has ", embedding->rows(), " rows"));
  }
  return count;
}

absl::Status ReadTokens(const GgufFile& file, Vocabulary& vocabulary) {
  QANAT_ASSIGN_OR_RETURN(const std::vector<std::string_view> tokens, file.GetStrings(kTokens));
  vocabulary.tokens.assign(tokens.begin(), tokens.end());
  return absl::OkStatus();
}

absl::Status ReadKinds(const GgufFile& file, Vocabulary& vocabulary) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  vocabulary.kinds.assign(vocabulary.tokens.size(), TokenKind::kNormal);
  if (!file.Has(kKey)) return absl::OkStatus();
  QANAT_ASSIGN_OR_RETURN(const uint64_t count, file.GetArraySize(kKey));
  if (count != vocabulary.tokens.size()) {
    return file.Error(kKey, absl::StrCat(count, " types for ", vocabulary.tokens.size(), " tokens"));
  }
  QANAT_ASSIGN_OR_RETURN(const std::vector<int32_t> types, file.GetI32s(kKey));
  for (size_t i = 0; i < types.size(); ++i) {
    if (!(types[i] >= 1 && types[i] <= 6)) {
      return file.Error(kKey, absl::StrCat("token ", i, " has the unknown type ", types[i]));
    }
    vocabulary.kinds[i] = static_cast<TokenKind>(types[i] - 1);
  }
  return absl::OkStatus();
}

absl::Status ReadMerges(const GgufFile& file, Vocabulary& vocabulary) {
  if (!file.Has(kMerges)) return absl::OkStatus();
  QANAT_ASSIGN_OR_RETURN(const std::vector<std::string_view> merges, file.GetStrings(kMerges));
  const absl::flat_hash_set<std::string_view> tokens(vocabulary.tokens.begin(), vocabulary.tokens.end());
  std::string joined;
  for (size_t i = 0; i < merges.size(); ++i) {
    // A part is never empty, so that a blank in the first place belongs to the left one.
    const size_t blank = merges[i].find(' ', 1);
    if (merges[i].empty() || blank == std::string_view::npos || blank + 1 == merges[i].size()) {
      return file.Error(kMerges, absl::StrCat("merge ", i, " is not two parts with a blank between"));
    }
    const std::string_view left = merges[i].substr(0, blank);
    const std::string_view right = merges[i].substr(blank + 1);
    joined.assign(left).append(right);
    if (!tokens.contains(left) || !tokens.contains(right) || !tokens.contains(joined)) {
      return file.Error(kMerges, absl::StrCat("merge ", i, " names a token that is absent"));
    }
  }
  vocabulary.merges.assign(merges.begin(), merges.end());
  return absl::OkStatus();
}

absl::Status ReadScores(const GgufFile& file, Vocabulary& vocabulary) {
  constexpr std::string_view kKey = "tokenizer.ggml.scores";
  if (!file.Has(kKey)) return absl::OkStatus();
  QANAT_ASSIGN_OR_RETURN(const uint64_t count, file.GetArraySize(kKey));
  if (count != vocabulary.tokens.size()) {
    return file.Error(kKey, absl::StrCat(count, " scores for ", vocabulary.tokens.size(), " tokens"));
  }
  QANAT_ASSIGN_OR_RETURN(vocabulary.scores, file.GetF32s(kKey));
  return absl::OkStatus();
}

// -1 when the file names none.
absl::StatusOr<TokenId> ReadId(const GgufFile& file, std::string_view key, uint64_t vocab_size) {
  if (!file.Has(key)) return TokenId{-1};
  QANAT_ASSIGN_OR_RETURN(const uint32_t id, file.GetU32(key));
  if (id >= vocab_size) {
    return file.Error(key, absl::StrCat("id ", id, " is outside the vocabulary of ", vocab_size, " tokens"));
  }
  return static_cast<TokenId>(id);
}

absl::Status ReadSpecialIds(const GgufFile& file, uint64_t size, Vocabulary& vocabulary) {
  QANAT_ASSIGN_OR_RETURN(vocabulary.bos, ReadId(file, "tokenizer.ggml.bos_token_id", size));
  QANAT_ASSIGN_OR_RETURN(vocabulary.eos, ReadId(file, "tokenizer.ggml.eos_token_id", size));
  QANAT_ASSIGN_OR_RETURN(vocabulary.unk, ReadId(file, "tokenizer.ggml.unknown_token_id", size));
  QANAT_ASSIGN_OR_RETURN(vocabulary.pad, ReadId(file, "tokenizer.ggml.padding_token_id", size));
  QANAT_ASSIGN_OR_RETURN(const TokenId eot, ReadId(file, "tokenizer.ggml.eot_token_id", size));
  for (const TokenId id : {vocabulary.eos, eot}) {
    if (id >= 0 && std::find(vocabulary.eog.begin(), vocabulary.eog.end(), id) == vocabulary.eog.end()) {
      vocabulary.eog.push_back(id);
    }
  }
  constexpr std::string_view kAddBos = "tokenizer.ggml.add_bos_token";
  const bool usual = vocabulary.model == "llama" || vocabulary.pre == "llama-bpe";
  QANAT_ASSIGN_OR_RETURN(vocabulary.add_bos, file.GetBoolOr(kAddBos, usual && vocabulary.bos >= 0));
  if (vocabulary.add_bos && vocabulary.bos < 0) {
    return file.Error(kAddBos, "is true, but tokenizer.ggml.bos_token_id is missing");
  }
  return absl::OkStatus();
}

// Files name one or two ends, yet a chat may end by another: Gemma's turns end with <end_of_turn>, of which
// its metadata says nothing. So these texts are ends too, where they are tokens of their own and not pieces
// of plain text. Not </s>: files whose end it is name it, and for others it is HTML.
void AddEndMarkers(Vocabulary& vocabulary) {
  static const auto& kMarkers = *new absl::flat_hash_set<std::string_view>{
      "<|eot_id|>", "<|eom_id|>",      "<|im_end|>",    "<|end|>",           "<|return|>",
      "<|call|>",   "<|end_of_text|>", "<|endoftext|>", "<end_of_turn>",     "<EOT>",
      "_<EOT>",     "[EOT]",           "[EOS]",         "<end_of_utterance>"};
  // Ids come once each, so that only those that the file named can be there already.
  const std::vector<TokenId> named = vocabulary.eog;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const TokenKind kind = vocabulary.kinds[id];
    if (kind != TokenKind::kControl && kind != TokenKind::kUserDefined) continue;
    if (!kMarkers.contains(vocabulary.tokens[id])) continue;
    const TokenId end = static_cast<TokenId>(id);
    if (std::find(named.begin(), named.end(), end) == named.end()) vocabulary.eog.push_back(end);
  }
}

}  // namespace

absl::StatusOr<Vocabulary> ReadVocabulary(const GgufFile& file) {
  Vocabulary vocabulary;
  QANAT_ASSIGN_OR_RETURN(vocabulary.model, file.GetString("tokenizer.ggml.model"));
  QANAT_ASSIGN_OR_RETURN(vocabulary.pre, file.GetStringOr("tokenizer.ggml.pre", ""));
  QANAT_ASSIGN_OR_RETURN(vocabulary.chat_template, file.GetStringOr("tokenizer.chat_template", ""));
  QANAT_ASSIGN_OR_RETURN(vocabulary.add_space_prefix,
                         file.GetBoolOr("tokenizer.ggml.add_space_prefix", vocabulary.model == "llama"));
  // Everything that is cheap to check comes before what takes memory for each token.
  QANAT_ASSIGN_OR_RETURN(const uint64_t count, ReadCount(file));
  QANAT_RETURN_IF_ERROR(ReadSpecialIds(file, count, vocabulary));
  QANAT_RETURN_IF_ERROR(ReadTokens(file, vocabulary));
  QANAT_RETURN_IF_ERROR(ReadKinds(file, vocabulary));
  QANAT_RETURN_IF_ERROR(ReadMerges(file, vocabulary));
  QANAT_RETURN_IF_ERROR(ReadScores(file, vocabulary));
  AddEndMarkers(vocabulary);
  return vocabulary;
}

}  // namespace qanat::model
