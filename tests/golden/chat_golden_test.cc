// The chats that transformers rendered with SmolLM2's own template, word for word.
#include "common/text/chat_template.h"
#include "gtest/gtest.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat::golden {
namespace {

TEST(ChatGoldenTest, RendersAsTransformers) {
  const text::Vocabulary& vocabulary = RealTokenizer().vocabulary();
  const auto chat_template = text::ChatTemplate::Create(
      vocabulary.chat_template, vocabulary.tokens[vocabulary.bos], vocabulary.tokens[vocabulary.eos]);
  ASSERT_TRUE(chat_template.ok()) << chat_template.status();
  std::ifstream file(GoldenPath("chat.jsonl"));
  ASSERT_TRUE(file.good());
  int num_chats = 0;
  for (std::string line; std::getline(file, line); ++num_chats) {
    const auto json = nlohmann::json::parse(line);
    text::ChatInput input;
    for (const auto& message : json.at("messages")) {
      input.messages.push_back({message.at("role"), message.at("content"), "", "", ""});
    }
    const auto spans = (*chat_template)->Render(input);
    ASSERT_TRUE(spans.ok()) << spans.status();
    std::string text;
    for (const text::TextSpan& span : *spans) text += span.text;
    EXPECT_EQ(text, json.at("text").get<std::string>());
  }
  EXPECT_EQ(num_chats, 6);
}

}  // namespace
}  // namespace qanat::golden
