// What Tokenizer::Create refuses.
#include "common/text/vocabulary.h"

#include <functional>

#include "common/base/error.h"
#include "common/text/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/byte_level_vocabulary.h"

namespace qanat::text {
namespace {

using testing::HasSubstr;
using testing::Not;

Vocabulary Good() { return fakes::ByteLevelVocabulary({{"a", "b"}, {"ab", "c"}}); }

// The status of Create after one change to a good vocabulary.
absl::Status StatusAfter(const std::function<void(Vocabulary&)>& change) {
  Vocabulary vocabulary = Good();
  change(vocabulary);
  return Tokenizer::Create(std::move(vocabulary)).status();
}

void ExpectInvalid(const absl::Status& status, std::string_view key, const std::string& reason) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(FieldOf(status), key);
  EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(key)));
}

TEST(VocabularyTest, GoodOneIsAccepted) {
  EXPECT_TRUE(StatusAfter([](Vocabulary&) {}).ok());
}

TEST(VocabularyTest, UnknownModelIsUnimplementedByName) {
  const absl::Status status = StatusAfter([](Vocabulary& v) { v.model = "t5"; });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(FieldOf(status), "tokenizer.ggml.model");
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("\"t5\" is not known to this build, which knows gpt2, llama"));
}

TEST(VocabularyTest, UnknownPreTokenizerIsUnimplementedByName) {
  const absl::Status status = StatusAfter([](Vocabulary& v) { v.pre = "viking"; });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(FieldOf(status), "tokenizer.ggml.pre");
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"viking\""));
}

TEST(VocabularyTest, TokensMustBeThereAndDiffer) {
  ExpectInvalid(StatusAfter([](Vocabulary& v) { v.tokens.clear(); }), "tokenizer.ggml.tokens", "none");
  ExpectInvalid(StatusAfter([](Vocabulary& v) { v.tokens[7] = v.tokens[1]; }), "tokenizer.ggml.tokens",
                "tokens 1 and 7 are both \"<|im_start|>\"");
}

TEST(VocabularyTest, OneKindATokenAndOfThisModel) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  ExpectInvalid(StatusAfter([](Vocabulary& v) { v.kinds.pop_back(); }), kKey, "262 types for 263 tokens");
  ExpectInvalid(StatusAfter([](Vocabulary& v) { v.kinds[9] = TokenKind::kByte; }), kKey,
                "token 9 has type 6, which gpt2 does not have");
  ExpectInvalid(StatusAfter([](Vocabulary& v) { v.kinds[9] = static_cast<TokenKind>(200); }), kKey,
                "token 9 has type 201");
}

TEST(VocabularyTest, IdsLieInside) {
  ExpectInvalid(StatusAfter([](Vocabulary& v) { v.bos = 263; }), "tokenizer.ggml.bos_token_id", "id 263");
  ExpectInvalid(StatusAfter([](Vocabulary& v) { v.eos = -2; }), "tokenizer.ggml.eos_token_id", "id -2");
  ExpectInvalid(StatusAfter([](Vocabulary& v) { v.unk = 1 << 30; }), "tokenizer.ggml.unknown_token_id",
                "263 tokens");
  ExpectInvalid(StatusAfter([](Vocabulary& v) { v.pad = 263; }), "tokenizer.ggml.padding_token_id", "id 263");
  ExpectInvalid(StatusAfter([](Vocabulary& v) { v.eog = {2, -1}; }), "tokenizer.ggml.eot_token_id", "id -1");
  ExpectInvalid(StatusAfter([](Vocabulary& v) {
                  v.bos = -1;
                  v.add_bos = true;
                }),
                "tokenizer.ggml.add_bos_token", "bos_token_id");
}

TEST(VocabularyTest, MergesNameTwoTokensThatMakeAThird) {
  constexpr std::string_view kKey = "tokenizer.ggml.merges";
  const auto with_merge = [](const char* merge) {
    return StatusAfter([&](Vocabulary& v) { v.merges.push_back(merge); });
  };
  ExpectInvalid(with_merge("b c"), kKey, "merge 2 (\"b c\") names a token that is absent");
  ExpectInvalid(with_merge("xx y"), kKey, "absent");
  ExpectInvalid(with_merge("x yy"), kKey, "absent");
  for (const char* merge : {"", "ab", " ab", "ab ", "a b c", " "}) {
    ExpectInvalid(with_merge(merge), kKey, "is not two tokens");
  }
  EXPECT_TRUE(with_merge("a b").ok());  // said twice; the better rank counts
}

// Otherwise plain text could forge a control token.
TEST(VocabularyTest, NoMergeMakesAControlToken) {
  ExpectInvalid(StatusAfter([](Vocabulary& v) {
                  v.tokens.push_back("<|");
                  v.kinds.push_back(TokenKind::kControl);
                  v.merges.push_back("< |");
                }),
                "tokenizer.ggml.merges", "control");
}

TEST(VocabularyTest, HostileNamesAreShortAndPrintableInErrors) {
  const absl::Status status =
      StatusAfter([](Vocabulary& v) { v.merges.push_back(std::string(100000, '\x01')); });
  EXPECT_LT(status.message().size(), 500u);
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\x01")));
}

}  // namespace
}  // namespace qanat::text
