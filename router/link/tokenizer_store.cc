#include "router/link/tokenizer_store.h"

#include <utility>

#include "common/api/tokenizer_proto.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/text/chat_template.h"

namespace qanat::router {
namespace {

std::string TextOf(const text::Tokenizer& tokenizer, TokenId id) {
  return id < 0 ? std::string() : std::string(tokenizer.TokenText(id));
}

}  // namespace

absl::StatusOr<ModelText> MakeModelText(const cluster::v1::Tokenizer& proto) {
  QANAT_ASSIGN_OR_RETURN(text::Vocabulary vocabulary, api::FromProto(proto));
  QANAT_ASSIGN_OR_RETURN(std::unique_ptr<text::Tokenizer> tokenizer,
                         text::Tokenizer::Create(std::move(vocabulary)));
  ModelText text;
  text.tokenizer = std::move(tokenizer);
  const text::Tokenizer& known = *text.tokenizer;
  if (known.vocabulary().chat_template.empty()) return text;
  absl::StatusOr<std::unique_ptr<text::ChatTemplate>> chat_template = text::ChatTemplate::Create(
      known.vocabulary().chat_template, TextOf(known, known.bos()), TextOf(known, known.eos()));
  if (chat_template.ok()) {
    text.chat_template = *std::move(chat_template);
  } else {
    spdlog::warn("no chat with this model: its template is not understood: {}",
                 std::string(chat_template.status().message()));
  }
  return text;
}

ModelText TokenizerStore::Find(const std::string& fingerprint) const {
  MutexLock lock(mu_);
  const auto found = entries_.find(fingerprint);
  if (found == entries_.end()) return {};
  return {found->second.tokenizer.lock(), found->second.chat_template.lock()};
}

ModelText TokenizerStore::Put(const std::string& fingerprint, ModelText text) {
  MutexLock lock(mu_);
  Entry& entry = entries_[fingerprint];
  if (ModelText first{entry.tokenizer.lock(), entry.chat_template.lock()}; first.tokenizer != nullptr)
    return first;
  entry = {text.tokenizer, text.chat_template};
  return text;
}

}  // namespace qanat::router
