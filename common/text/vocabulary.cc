#include "common/text/vocabulary.h"

#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

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

}  // namespace

absl::Status CheckVocabulary(const Vocabulary& vocabulary) {
  QANAT_RETURN_IF_ERROR(CheckTokens(vocabulary));
  QANAT_RETURN_IF_ERROR(CheckKinds(vocabulary));
  return CheckIds(vocabulary);
}

}  // namespace qanat::text
