// A model's chat template: messages to the text of a prompt.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/text/tokenizer.h"

namespace qanat::text {

namespace jinja {
class Template;
}

struct ChatMessage {
  std::string role;
  std::string content;
  std::string name;             // empty: the template sees none
  std::string tool_call_id;     // the same
  std::string tool_calls_json;  // a JSON array; empty: none
};

struct ChatInput {
  std::vector<ChatMessage> messages;
  std::string tools_json;               // a JSON array; empty: `tools` is None, as transformers passes it
  std::string template_arguments_json;  // a JSON object of further variables; empty: none
  bool add_generation_prompt = true;
};

// Renders chats as transformers' apply_chat_template does, with the templates that model files carry.
//
// The prompt comes as spans: control where the template itself wrote (its text, its string constants, BOS and
// EOS), plain where data did. Tokenizer::EncodeSpans finds control tokens in control spans only, so nobody
// can forge a turn by typing "<|im_end|>". Spans are never empty and alternate.
//
// The template may print BOS itself. Whether one is still to be put in front, by the model's add_bos, is for
// the caller to decide, who knows the first span's text and the vocabulary: never two.
//
// Owns the compiled template. Immutable: any number of threads may render at once.
// No template and no input can reach the host, end the process, or take more than bounded time and memory
// (common/text/jinja/budget.h); the sizes of the input are bounded by the caller.
class ChatTemplate {
 public:
  // The present time, written as strftime's format says, for templates that call strftime_now.
  using TimeFormatter = std::function<std::string(std::string_view format)>;

  // `bos_token` and `eos_token`: their texts, empty where the model has none. Without `now` a template finds
  // no strftime_now. INVALID_ARGUMENT for a template that is wrong, UNIMPLEMENTED for one that uses what this
  // build does not know; the message is "line <n>: <what>".
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Create(std::string_view source, std::string bos_token,
                                                              std::string eos_token,
                                                              TimeFormatter now = nullptr);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // INVALID_ARGUMENT: the template refuses the chat (raise_exception: the message is its text), it fails on
  // it or reaches a limit, or a JSON field is none. FieldOf() is "chat" or the JSON's own field.
  absl::StatusOr<std::vector<TextSpan>> Render(const ChatInput& input) const;

 private:
  ChatTemplate(std::unique_ptr<const jinja::Template> compiled, std::string bos_token, std::string eos_token,
               TimeFormatter now);

  const std::unique_ptr<const jinja::Template> template_;
  const std::string bos_token_;
  const std::string eos_token_;
  const TimeFormatter now_;
};

}  // namespace qanat::text
