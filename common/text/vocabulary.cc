#include "common/text/vocabulary.h"

#include <bit>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "xxhash.h"

namespace qanat::text {
namespace {

absl::Status CheckKinds(const Vocabulary& vocabulary) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  if (vocabulary.kinds.size() != vocabulary.tokens.size()) {
    return InvalidField(
        kKey, absl::StrCat(vocabulary.kinds.size(), " types for ", vocabulary.tokens.size(), " tokens"));
  }
  for (size_t id = 0; id < vocabulary.kinds.size(); ++id) {
    if (vocabulary.kinds[id] > TokenKind::kByte) {
      const int type = static_cast<int>(vocabulary.kinds[id]) + 1;
      return InvalidField(kKey, absl::StrCat("token ", id, " has type ", type, ", which no model has"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTokens(const Vocabulary& vocabulary) {
  constexpr std::string_view kKey = "tokenizer.ggml.tokens";
  if (vocabulary.tokens.empty()) return InvalidField(kKey, "there are none");
  absl::flat_hash_map<std::string_view, size_t> first;
  first.reserve(vocabulary.tokens.size());
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const auto [same, is_new] = first.emplace(vocabulary.tokens[id], id);
    if (!is_new) {
      const std::string shown = absl::Utf8SafeCHexEscape(vocabulary.tokens[id].substr(0, 40));
      return InvalidField(kKey,
                          absl::StrCat("tokens ", same->second, " and ", id, " are both \"", shown, "\""));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckId(const Vocabulary& vocabulary, std::string_view key, TokenId id, TokenId least) {
  const TokenId size = static_cast<TokenId>(vocabulary.tokens.size());
  if (id >= least && id < size) return absl::OkStatus();
  return InvalidField(key, absl::StrCat("id ", id, " is outside the vocabulary of ", size, " tokens"));
}

absl::Status CheckIds(const Vocabulary& vocabulary) {
  for (const auto& [key, id] : {std::pair{"tokenizer.ggml.bos_token_id", vocabulary.bos},
                                {"tokenizer.ggml.eos_token_id", vocabulary.eos},
                                {"tokenizer.ggml.unknown_token_id", vocabulary.unk},
                                {"tokenizer.ggml.padding_token_id", vocabulary.pad}}) {
    QANAT_RETURN_IF_ERROR(CheckId(vocabulary, key, id, -1));
  }
  for (const TokenId id : vocabulary.eog) {
    QANAT_RETURN_IF_ERROR(CheckId(vocabulary, "tokenizer.ggml.eot_token_id", id, 0));
  }
  if (vocabulary.add_bos && vocabulary.bos < 0) {
    return InvalidField("tokenizer.ggml.add_bos_token",
                        "is true, but no tokenizer.ggml.bos_token_id is given");
  }
  return absl::OkStatus();
}

// Feeds fields so that none runs into the next.
class Digest {
 public:
  Digest() { XXH3_128bits_reset(state_); }
  ~Digest() { XXH3_freeState(state_); }
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void Number(uint64_t number) { XXH3_128bits_update(state_, &number, sizeof(number)); }
  void Text(std::string_view text) {
    Number(text.size());
    XXH3_128bits_update(state_, text.data(), text.size());
  }
  std::string Hex() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_);
    return absl::StrCat(absl::Hex(hash.high64, absl::kZeroPad16), absl::Hex(hash.low64, absl::kZeroPad16));
  }

 private:
  XXH3_state_t* const state_ = XXH3_createState();
};

}  // namespace

absl::Status CheckVocabulary(const Vocabulary& vocabulary) {
  QANAT_RETURN_IF_ERROR(CheckTokens(vocabulary));
  QANAT_RETURN_IF_ERROR(CheckKinds(vocabulary));
  return CheckIds(vocabulary);
}

std::string FingerprintOf(const Vocabulary& vocabulary) {
  Digest digest;
  digest.Text(vocabulary.model);
  digest.Text(vocabulary.pre);
  digest.Number(vocabulary.tokens.size());
  for (const std::string& token : vocabulary.tokens) digest.Text(token);
  digest.Number(vocabulary.kinds.size());
  for (const TokenKind kind : vocabulary.kinds) digest.Number(static_cast<uint64_t>(kind));
  digest.Number(vocabulary.merges.size());
  for (const std::string& merge : vocabulary.merges) digest.Text(merge);
  digest.Number(vocabulary.scores.size());
  for (const float score : vocabulary.scores) digest.Number(std::bit_cast<uint32_t>(score));
  for (const TokenId id : {vocabulary.bos, vocabulary.eos, vocabulary.unk, vocabulary.pad}) {
    digest.Number(static_cast<uint64_t>(id));
  }
  digest.Number(vocabulary.eog.size());
  for (const TokenId id : vocabulary.eog) digest.Number(static_cast<uint64_t>(id));
  digest.Number(vocabulary.add_bos ? 1 : 0);
  digest.Number(vocabulary.add_space_prefix ? 1 : 0);
  digest.Text(vocabulary.chat_template);
  return digest.Hex();
}

}  // namespace qanat::text
