// A04: BOS was put in front of a prompt whose template had already written it, or left out where the model
// was trained with it.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/api/generate.h"
#include "common/text/chat_template.h"
#include "gtest/gtest.h"
#include "tests/fakes/gguf_builder.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat {
namespace {

using Ids = std::vector<TokenId>;

// What a worker does with a model's vocabulary and a request.
Ids EncodeText(const text::Tokenizer& tokenizer, const std::string& text) {
  v1::GenerateRequest request;
  request.set_text(text);
  return api::EncodePrompt(request, tokenizer, nullptr).value();
}

Ids EncodeChat(const text::Tokenizer& tokenizer, const std::string& content) {
  const text::Vocabulary& vocabulary = tokenizer.vocabulary();
  const auto chat_template =
      text::ChatTemplate::Create(vocabulary.chat_template, vocabulary.tokens[vocabulary.bos],
                                 vocabulary.tokens[vocabulary.eos])
          .value();
  v1::GenerateRequest request;
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content(content);
  return api::EncodePrompt(request, tokenizer, chat_template.get()).value();
}

// Tokens: <unk> <s> </s> a b c ab d; BOS is <s>, 1.
std::unique_ptr<text::Tokenizer> TinyTokenizer(bool add_bos, const std::string& chat_template) {
  fakes::GgufBuilder builder = fakes::TinyLlama();
  builder.SetBool("tokenizer.ggml.add_bos_token", add_bos);
  builder.SetString("tokenizer.chat_template", chat_template);
  const std::vector<std::byte> bytes = builder.Build();
  const auto file = model::GgufFile::Parse("tiny.gguf", bytes).value();
  return text::Tokenizer::Create(model::ReadVocabulary(*file).value()).value();
}

TEST(A04OneBosTest, ATemplateThatPrintsItGetsNoSecondOne) {
  const auto tokenizer = TinyTokenizer(true, "{{ bos_token }}{{ messages[0].content }}");
  EXPECT_EQ(EncodeChat(*tokenizer, "abc"), (Ids{1, 6, 5}));
}

TEST(A04OneBosTest, ATemplateThatDoesNotPrintItGetsIt) {
  const auto tokenizer = TinyTokenizer(true, "{{ messages[0].content }}");
  EXPECT_EQ(EncodeChat(*tokenizer, "abc"), (Ids{1, 6, 5}));
}

TEST(A04OneBosTest, RawTextGetsOne) {
  const auto tokenizer = TinyTokenizer(true, "{{ bos_token }}{{ messages[0].content }}");
  EXPECT_EQ(EncodeText(*tokenizer, "abc"), (Ids{1, 6, 5}));
}

TEST(A04OneBosTest, AModelThatWantsNoneGetsTheTemplatesOnly) {
  const auto tokenizer = TinyTokenizer(false, "{{ bos_token }}{{ messages[0].content }}");
  EXPECT_EQ(EncodeText(*tokenizer, "abc"), (Ids{6, 5}));
  EXPECT_EQ(EncodeChat(*tokenizer, "abc"), (Ids{1, 6, 5}));
}

// Its BOS is <|im_start|>, with which every turn begins.
TEST(A04OneBosTest, SmolLm2GetsNone) {
  const text::Tokenizer& tokenizer = golden::RealTokenizer();
  ASSERT_EQ(tokenizer.bos(), 1);
  EXPECT_EQ(EncodeText(tokenizer, "  Hello"), (Ids{216, 38699}));
  const Ids chat = EncodeChat(tokenizer, "Hi");
  ASSERT_GE(chat.size(), 2u);
  EXPECT_EQ(chat[0], 1);
  EXPECT_NE(chat[1], 1);
  // System prompt, user, and the turn that is to be generated.
  EXPECT_EQ(std::count(chat.begin(), chat.end(), 1), 3);
}

}  // namespace
}  // namespace qanat
