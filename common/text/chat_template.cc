#include "common/text/chat_template.h"

#include <memory>
#include <utility>

#include "absl/memory/memory.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/text/jinja/cat.h"
#include "common/text/jinja/functions.h"
#include "common/text/jinja/json.h"
#include "common/text/jinja/template.h"
#include "common/text/jinja/value.h"

namespace qanat::text {
namespace {

using jinja::Cat;
using jinja::Dict;
using jinja::Kind;
using jinja::List;
using jinja::Value;

// What a caller's own variables must not replace: the chat itself, and what tells control text from data.
constexpr std::string_view kReservedNames[] = {"messages",  "tools",     "documents", "add_generation_prompt",
                                               "bos_token", "eos_token", "loop"};

absl::StatusOr<Value> ParseJson(std::string_view json, std::string_view field) {
  absl::StatusOr<Value> value = jinja::FromJson(json);
  if (!value.ok()) return InvalidField(field, std::string(value.status().message()));
  return value;
}

absl::StatusOr<Value> ParseArray(std::string_view json, std::string_view field) {
  QANAT_ASSIGN_OR_RETURN(Value value, ParseJson(json, field));
  if (!value.Is(Kind::kList)) return InvalidField(field, "must be a JSON array");
  return value;
}

absl::StatusOr<Value> MessageValue(const ChatMessage& message, size_t index) {
  auto dict = std::make_shared<Dict>();
  dict->SetText("role", Value::Plain(message.role));
  dict->SetText("content", Value::Plain(message.content));
  if (!message.name.empty()) dict->SetText("name", Value::Plain(message.name));
  if (!message.tool_calls_json.empty()) {
    const std::string field = Cat("chat.messages[", index, "].tool_calls_json");
    QANAT_ASSIGN_OR_RETURN(Value calls, ParseArray(message.tool_calls_json, field));
    dict->SetText("tool_calls", std::move(calls));
  }
  if (!message.tool_call_id.empty()) dict->SetText("tool_call_id", Value::Plain(message.tool_call_id));
  return Value::Of(std::shared_ptr<const Dict>(std::move(dict)));
}

// The caller's own variables: data like any other.
absl::Status AddArguments(std::string_view json, jinja::Variables& variables) {
  constexpr std::string_view kField = "chat.template_arguments_json";
  QANAT_ASSIGN_OR_RETURN(const Value value, ParseJson(json, kField));
  if (!value.Is(Kind::kDict)) return InvalidField(kField, "must be a JSON object");
  for (const Dict::Entry& entry : value.dict().entries()) {
    const std::string& name = entry.key.bytes();
    for (const std::string_view reserved : kReservedNames) {
      if (name == reserved) return InvalidField(kField, Cat("must not set '", name, "'"));
    }
    if (jinja::FindFunction(name).has_value()) return InvalidField(kField, Cat("must not set '", name, "'"));
    variables[name] = entry.value;
  }
  return absl::OkStatus();
}

std::vector<TextSpan> ToSpans(const jinja::Text& text) {
  std::vector<TextSpan> spans;
  spans.reserve(text.runs().size());
  size_t begin = 0;
  for (const jinja::Text::Run& run : text.runs()) {
    spans.push_back({text.bytes().substr(begin, run.end - begin), run.control});
    begin = run.end;
  }
  return spans;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Create(std::string_view source,
                                                                   std::string bos_token,
                                                                   std::string eos_token, TimeFormatter now) {
  QANAT_ASSIGN_OR_RETURN(std::unique_ptr<jinja::Template> compiled, jinja::Template::Compile(source));
  return absl::WrapUnique(
      new ChatTemplate(std::move(compiled), std::move(bos_token), std::move(eos_token), std::move(now)));
}

ChatTemplate::ChatTemplate(std::unique_ptr<const jinja::Template> compiled, std::string bos_token,
                           std::string eos_token, TimeFormatter now)
    : template_(std::move(compiled)),
      bos_token_(std::move(bos_token)),
      eos_token_(std::move(eos_token)),
      now_(std::move(now)) {}

ChatTemplate::~ChatTemplate() = default;

absl::StatusOr<std::vector<TextSpan>> ChatTemplate::Render(const ChatInput& input) const {
  jinja::Variables variables;
  if (!input.template_arguments_json.empty()) {
    QANAT_RETURN_IF_ERROR(AddArguments(input.template_arguments_json, variables));
  }
  std::vector<Value> messages;
  for (size_t i = 0; i < input.messages.size(); ++i) {
    QANAT_ASSIGN_OR_RETURN(Value message, MessageValue(input.messages[i], i));
    messages.push_back(std::move(message));
  }
  variables["messages"] = jinja::ListOf(List::Type::kList, std::move(messages));
  variables["tools"] = Value::None();
  if (!input.tools_json.empty()) {
    QANAT_ASSIGN_OR_RETURN(variables["tools"], ParseArray(input.tools_json, "chat.tools_json"));
  }
  variables["documents"] = Value::None();
  variables["add_generation_prompt"] = Value::Bool(input.add_generation_prompt);
  // As transformers does, a token that the model lacks is no variable at all.
  if (!bos_token_.empty()) variables["bos_token"] = Value::Control(bos_token_);
  if (!eos_token_.empty()) variables["eos_token"] = Value::Control(eos_token_);
  absl::StatusOr<jinja::Text> text = template_->Render(variables, now_);
  if (!text.ok()) return WithField(text.status(), "chat");
  return ToSpans(*text);
}

}  // namespace qanat::text
