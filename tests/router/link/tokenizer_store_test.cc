#include "router/link/tokenizer_store.h"

#include <memory>
#include <string>
#include <utility>

#include "common/api/tokenizer_proto.h"
#include "common/text/chat_template.h"
#include "gtest/gtest.h"
#include "tests/fakes/byte_level_vocabulary.h"

namespace qanat::router {
namespace {

cluster::v1::Tokenizer Sent(const std::string& chat_template) {
  text::Vocabulary vocabulary = fakes::ByteLevelVocabulary({{"a", "b"}});
  vocabulary.chat_template = chat_template;
  return api::ToProto(vocabulary);
}

TEST(ModelTextTest, EncodesAsTheWorkersFileSays) {
  const auto text = MakeModelText(Sent(""));
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->tokenizer->Encode("ab").size(), 1u);
  EXPECT_EQ(text->chat_template, nullptr);
}

TEST(ModelTextTest, CompilesTheChatTemplate) {
  const auto text =
      MakeModelText(Sent("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}{{ eos_token }}"));
  ASSERT_TRUE(text.ok()) << text.status();
  ASSERT_NE(text->chat_template, nullptr);
  text::ChatInput chat;
  chat.messages = {{"user", "hi", "", "", ""}};
  const auto spans = text->chat_template->Render(chat);
  ASSERT_TRUE(spans.ok()) << spans.status();
  std::string joined;
  for (const text::TextSpan& span : *spans) joined += span.text;
  EXPECT_EQ(joined, "<|im_start|>hi<|im_end|>");
}

TEST(ModelTextTest, ATemplateThatIsNotUnderstoodCostsOnlyTheChat) {
  const auto text = MakeModelText(Sent("{% nonsense %}"));
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_NE(text->tokenizer, nullptr);
  EXPECT_EQ(text->chat_template, nullptr);
}

TEST(ModelTextTest, RefusesAVocabularyItCannotHonour) {
  cluster::v1::Tokenizer unknown = Sent("");
  unknown.set_pre("of another kind");
  EXPECT_FALSE(MakeModelText(unknown).ok());
  cluster::v1::Tokenizer contradictory = Sent("");
  contradictory.add_kinds(1);
  EXPECT_FALSE(MakeModelText(contradictory).ok());
}

TEST(TokenizerStoreTest, KeepsOneForAModelWhileItIsUsed) {
  TokenizerStore store;
  EXPECT_EQ(store.Find("f").tokenizer, nullptr);
  ModelText first = store.Put("f", *MakeModelText(Sent("x")));
  EXPECT_EQ(store.Find("f").tokenizer, first.tokenizer);
  EXPECT_EQ(store.Find("f").chat_template, first.chat_template);
  EXPECT_EQ(store.Find("g").tokenizer, nullptr);
  // Two links that fetched it at once end up with one.
  EXPECT_EQ(store.Put("f", *MakeModelText(Sent("x"))).tokenizer, first.tokenizer);
  first = {};
  EXPECT_EQ(store.Find("f").tokenizer, nullptr);
  const ModelText again = store.Put("f", *MakeModelText(Sent("x")));
  EXPECT_EQ(store.Find("f").tokenizer, again.tokenizer);
}

}  // namespace
}  // namespace qanat::router
