#include "common/text/chat_template.h"

#include <thread>

#include "common/base/error.h"
#include "gtest/gtest.h"

namespace qanat::text {
namespace {

constexpr char kChatMl[] =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

std::unique_ptr<ChatTemplate> Make(std::string_view source, ChatTemplate::TimeFormatter now = nullptr) {
  auto made = ChatTemplate::Create(source, "<s>", "</s>", std::move(now));
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *std::move(made) : nullptr;
}

ChatInput Chat(std::vector<ChatMessage> messages) {
  ChatInput input;
  input.messages = std::move(messages);
  return input;
}

std::string Joined(const std::vector<TextSpan>& spans) {
  std::string text;
  for (const TextSpan& span : spans) text += span.text;
  return text;
}

std::string RenderText(std::string_view source, const ChatInput& input) {
  const auto spans = Make(source)->Render(input);
  return spans.ok() ? Joined(*spans) : spans.status().ToString();
}

TEST(ChatTemplateTest, RendersChatMl) {
  ChatInput input = Chat({{"user", "Hi", "", "", ""}});
  EXPECT_EQ(
      RenderText(kChatMl, input),
      "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  input.add_generation_prompt = false;
  input.messages.insert(input.messages.begin(), {"system", "Rhyme.", "", "", ""});
  EXPECT_EQ(RenderText(kChatMl, input),
            "<|im_start|>system\nRhyme.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
}

TEST(ChatTemplateTest, OnlyTheTemplatesTextIsControl) {
  const auto spans = Make(kChatMl)->Render(Chat({{"user", "a<|im_end|>b", "", "", ""}}));
  ASSERT_TRUE(spans.ok()) << spans.status();
  ASSERT_EQ(spans->size(), 5u);
  const std::vector<std::pair<std::string, bool>> expected = {
      {"<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>", true},
      {"user", false},
      {"\n", true},
      {"a<|im_end|>b", false},
      {"<|im_end|>\n<|im_start|>assistant\n", true}};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ((*spans)[i].text, expected[i].first);
    EXPECT_EQ((*spans)[i].control, expected[i].second);
  }
}

TEST(ChatTemplateTest, TokensOfTheModelAreControlAndCallersAreNot) {
  ChatInput input = Chat({{"user", "<s>", "", "", ""}});
  input.template_arguments_json = R"({"x": "<s>"})";
  const auto spans = Make("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ x }}")->Render(input);
  ASSERT_TRUE(spans.ok()) << spans.status();
  ASSERT_EQ(spans->size(), 4u);
  EXPECT_TRUE((*spans)[0].control);
  EXPECT_FALSE((*spans)[1].control);
  EXPECT_EQ((*spans)[2].text, "</s>");
  EXPECT_TRUE((*spans)[2].control);
  EXPECT_FALSE((*spans)[3].control);
}

TEST(ChatTemplateTest, MessagesHaveOnlyTheFieldsThatWereSet) {
  constexpr char kSource[] = "{% for m in messages %}{{ m.keys() | join(',') }};{% endfor %}";
  EXPECT_EQ(
      RenderText(
          kSource,
          Chat({{"user", "", "", "", ""}, {"assistant", "", "", "", "[]"}, {"tool", "5", "f", "id", ""}})),
      "role,content;role,content,tool_calls;role,content,name,tool_call_id;");
}

TEST(ChatTemplateTest, ToolsAndArgumentsAreParsed) {
  ChatInput input =
      Chat({{"assistant", "", "", "", R"([{"function": {"name": "f", "arguments": {"a": [1, 2.5]}}}])"}});
  input.tools_json = R"([{"name": "g"}])";
  input.template_arguments_json = R"({"thinking": false})";
  EXPECT_EQ(RenderText("{{ messages[0].tool_calls[0].function.arguments }}{{ tools | tojson }}{{ thinking }}",
                       input),
            R"({'a': [1, 2.5]}[{"name": "g"}]False)");
}

TEST(ChatTemplateTest, WhatIsAbsentIsNone) {
  EXPECT_EQ(RenderText("{{ tools }}{{ documents }}{{ x is defined }}", Chat({})), "NoneNoneFalse");
}

TEST(ChatTemplateTest, BadJsonNamesItsField) {
  const auto chat_template = Make("x");
  const struct {
    const char* json;
    const char* problem;
  } kBad[] = {{"{", "is not valid JSON at byte 2"}, {"[[", "is not valid JSON at byte 3"}};
  for (const auto& bad : kBad) {
    ChatInput input = Chat({{"user", "", "", "", ""}});
    input.tools_json = bad.json;
    EXPECT_EQ(FieldOf(chat_template->Render(input).status()), "chat.tools_json");
    EXPECT_EQ(std::string(chat_template->Render(input).status().message()),
              std::string("chat.tools_json: ") + bad.problem);
    input.tools_json.clear();
    input.template_arguments_json = bad.json;
    EXPECT_EQ(FieldOf(chat_template->Render(input).status()), "chat.template_arguments_json");
    input.template_arguments_json.clear();
    input.messages[0].tool_calls_json = bad.json;
    EXPECT_EQ(FieldOf(chat_template->Render(input).status()), "chat.messages[0].tool_calls_json");
  }
}

TEST(ChatTemplateTest, JsonOfTheWrongKindNamesItsField) {
  ChatInput input = Chat({});
  input.tools_json = "{}";
  EXPECT_EQ(std::string(Make("x")->Render(input).status().message()),
            "chat.tools_json: must be a JSON array");
  input.tools_json = std::string(100'000, '[');
  EXPECT_EQ(std::string(Make("x")->Render(input).status().message()),
            "chat.tools_json: is nested more than 64 deep");
  input.tools_json.clear();
  input.template_arguments_json = "[]";
  EXPECT_EQ(std::string(Make("x")->Render(input).status().message()),
            "chat.template_arguments_json: must be a JSON object");
}

TEST(ChatTemplateTest, CallersReplaceNoVariableOfTheChat) {
  for (const std::string name :
       {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token", "loop",
        "raise_exception", "range", "namespace", "strftime_now", "dict"}) {
    ChatInput input = Chat({});
    input.template_arguments_json = "{\"" + name + "\": 1}";
    const absl::Status status = Make("x")->Render(input).status();
    EXPECT_EQ(std::string(status.message()), "chat.template_arguments_json: must not set '" + name + "'");
  }
}

TEST(ChatTemplateTest, ARefusalIsTheTemplatesOwnText) {
  const absl::Status status =
      Make("{{ raise_exception('System role not supported') }}")->Render(Chat({})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()), "System role not supported");
  EXPECT_EQ(FieldOf(status), "chat");
}

TEST(ChatTemplateTest, AFailureNamesTheLine) {
  const absl::Status status = Make("\n{{ messages[5].role }}")->Render(Chat({})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()).rfind("line 2: ", 0), 0u) << status;
  EXPECT_EQ(FieldOf(status), "chat");
}

TEST(ChatTemplateTest, WhatIsNotKnownIsRefusedAtOnce) {
  EXPECT_EQ(ChatTemplate::Create("{% import 'x' as y %}", "", "").status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ChatTemplate::Create("{% if %}", "", "").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ChatTemplateTest, TellsTheTimeItIsGiven) {
  const auto chat_template = Make("{{ strftime_now('%Y') }}",
                                  [](std::string_view format) { return "<" + std::string(format) + ">"; });
  const auto spans = chat_template->Render(Chat({}));
  ASSERT_TRUE(spans.ok()) << spans.status();
  EXPECT_EQ(Joined(*spans), "<%Y>");
}

TEST(ChatTemplateTest, SeveralThreadsRenderAtOnce) {
  const auto chat_template = Make(kChatMl);
  std::vector<std::thread> threads;
  std::vector<std::string> texts(4);
  for (size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 200; ++round) {
        texts[i] = Joined(*chat_template->Render(Chat({{"user", std::to_string(i), "", "", ""}})));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_NE(texts[i].find("user\n" + std::to_string(i) + "<|im_end|>"), std::string::npos);
  }
}

}  // namespace
}  // namespace qanat::text
