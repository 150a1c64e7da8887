#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/api/generate.h"
#include "common/api/limits.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/text/chat_template.h"

namespace qanat::api {
namespace {

// Exactly one BOS where the model wants one, also when the template wrote it.
std::vector<TokenId> WithBos(std::vector<TokenId> ids, const text::Tokenizer& tokenizer) {
  const TokenId bos = tokenizer.bos();
  if (!tokenizer.vocabulary().add_bos || bos < 0 || (!ids.empty() && ids.front() == bos)) return ids;
  ids.insert(ids.begin(), bos);
  return ids;
}

text::ChatInput ToInput(const v1::ChatPrompt& chat) {
  text::ChatInput input;
  input.messages.reserve(chat.messages_size());
  for (const v1::ChatMessage& message : chat.messages()) {
    input.messages.push_back({message.role(), message.content(), message.name(), message.tool_call_id(),
                              message.tool_calls_json()});
  }
  input.tools_json = chat.tools_json();
  input.template_arguments_json = chat.template_arguments_json();
  input.add_generation_prompt = !chat.has_add_generation_prompt() || chat.add_generation_prompt();
  return input;
}

absl::StatusOr<std::vector<TokenId>> EncodeChat(const v1::ChatPrompt& chat, const text::Tokenizer& tokenizer,
                                                const text::ChatTemplate* chat_template) {
  if (chat_template == nullptr) {
    return WithReason(
        WithField(absl::FailedPreconditionError("chat: the model has no chat template that is understood; "
                                                "plain text works"),
                  "chat"),
        "NO_CHAT_TEMPLATE");
  }
  QANAT_ASSIGN_OR_RETURN(const std::vector<text::TextSpan> spans, chat_template->Render(ToInput(chat)));
  return WithBos(tokenizer.EncodeSpans(spans), tokenizer);
}

}  // namespace

absl::StatusOr<std::vector<TokenId>> EncodePrompt(const v1::GenerateRequest& request,
                                                  const text::Tokenizer& tokenizer,
                                                  const text::ChatTemplate* chat_template) {
  if (request.has_token_ids()) {
    return std::vector<TokenId>(request.token_ids().ids().begin(), request.token_ids().ids().end());
  }
  if (request.has_chat()) return EncodeChat(request.chat(), tokenizer, chat_template);
  return WithBos(tokenizer.Encode(request.text()), tokenizer);
}

absl::StatusOr<std::vector<TokenId>> EncodePrompt(const v1::TokenizeRequest& request,
                                                  const text::Tokenizer& tokenizer,
                                                  const text::ChatTemplate* chat_template) {
  if (request.has_chat()) return EncodeChat(request.chat(), tokenizer, chat_template);
  return WithBos(tokenizer.Encode(request.text()), tokenizer);
}

absl::StatusOr<std::string> DecodeIds(const v1::DetokenizeRequest& request,
                                      const text::Tokenizer& tokenizer) {
  const std::vector<TokenId> ids(request.token_ids().begin(), request.token_ids().end());
  size_t bytes = 0;
  for (const TokenId id : ids) bytes += tokenizer.Bytes(id).size();
  if (bytes > kMaxDetokenizedBytes) {
    return InvalidField("token_ids",
                        absl::StrCat("their text has ", bytes, " bytes, more than ", kMaxDetokenizedBytes));
  }
  return tokenizer.Decode(ids);
}

}  // namespace qanat::api
