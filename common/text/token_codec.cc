#include "common/text/token_codec.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/text/byte_level_codec.h"
#include "common/text/sentence_piece_codec.h"

namespace qanat::text {
namespace {

struct Algorithm {
  const char* model;
  absl::StatusOr<std::unique_ptr<const TokenCodec>> (*create)(const Vocabulary&);
};

constexpr Algorithm kAlgorithms[] = {{"gpt2", CreateByteLevelCodec}, {"llama", CreateSentencePieceCodec}};

}  // namespace

absl::StatusOr<std::unique_ptr<const TokenCodec>> TokenCodec::Create(const Vocabulary& vocabulary) {
  constexpr char kKey[] = "tokenizer.ggml.model";
  std::string known;
  for (const Algorithm& algorithm : kAlgorithms) {
    if (vocabulary.model == algorithm.model) {
      QANAT_RETURN_IF_ERROR(CheckVocabulary(vocabulary));
      return algorithm.create(vocabulary);
    }
    absl::StrAppend(&known, known.empty() ? "" : ", ", algorithm.model);
  }
  const std::string shown = absl::Utf8SafeCHexEscape(vocabulary.model.substr(0, 40));
  return WithField(absl::UnimplementedError(absl::StrCat(
                       kKey, ": \"", shown, "\" is not known to this build, which knows ", known)),
                   kKey);
}

}  // namespace qanat::text
