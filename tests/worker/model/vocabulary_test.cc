#include "worker/model/weights/vocabulary.h"

#include <functional>
#include <vector>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/gguf_builder.h"

namespace qanat::model {
namespace {

using fakes::GgufBuilder;
using fakes::TinyLlama;
using testing::ElementsAre;
using testing::HasSubstr;
using text::TokenKind;

absl::StatusOr<text::Vocabulary> Read(const GgufBuilder& builder) {
  const std::vector<std::byte> bytes = builder.Build();
  const auto file = GgufFile::Parse("tiny.gguf", bytes);
  if (!file.ok()) return file.status();
  return ReadVocabulary(**file);
}

TEST(VocabularyTest, IsWhatTheFileSays) {
  GgufBuilder builder = TinyLlama();
  builder.SetU32("tokenizer.ggml.eot_token_id", 7);
  builder.SetU32("tokenizer.ggml.padding_token_id", 2);
  builder.SetString("tokenizer.chat_template", "{{ messages }}");
  const auto vocabulary = Read(builder);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  EXPECT_EQ(vocabulary->model, "gpt2");
  EXPECT_EQ(vocabulary->pre, "smollm");
  EXPECT_THAT(vocabulary->tokens, ElementsAre("<unk>", "<s>", "</s>", "a", "b", "c", "ab", "d"));
  EXPECT_EQ(vocabulary->kinds[0], TokenKind::kUnknown);
  EXPECT_EQ(vocabulary->kinds[2], TokenKind::kControl);
  EXPECT_EQ(vocabulary->kinds[3], TokenKind::kNormal);
  EXPECT_THAT(vocabulary->merges, ElementsAre("a b"));
  EXPECT_EQ(vocabulary->bos, 1);
  EXPECT_EQ(vocabulary->eos, 2);
  EXPECT_EQ(vocabulary->unk, 0);
  EXPECT_EQ(vocabulary->pad, 2);
  EXPECT_THAT(vocabulary->eog, ElementsAre(2, 7));
  EXPECT_FALSE(vocabulary->add_bos);
  EXPECT_EQ(vocabulary->chat_template, "{{ messages }}");
}

TEST(VocabularyTest, TakesWhatIsAbsentForNone) {
  GgufBuilder builder = TinyLlama();
  for (const char* key :
       {"token_type", "merges", "bos_token_id", "eos_token_id", "unknown_token_id", "add_bos_token", "pre"}) {
    builder.Remove(std::string("tokenizer.ggml.") + key);
  }
  const auto vocabulary = Read(builder);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  EXPECT_EQ(vocabulary->kinds, std::vector<TokenKind>(8, TokenKind::kNormal));
  EXPECT_EQ(vocabulary->bos, -1);
  EXPECT_EQ(vocabulary->eos, -1);
  EXPECT_TRUE(vocabulary->eog.empty());
  EXPECT_TRUE(vocabulary->merges.empty());
  EXPECT_FALSE(vocabulary->add_bos);
}

TEST(VocabularyTest, KnowsEndsThatTheFileDoesNotName) {
  GgufBuilder builder = TinyLlama();
  builder.SetStrings("tokenizer.ggml.tokens", {"<end_of_turn>", "</s>", "<eos>", "a", "<|im_end|>", "<|end|>",
                                               "<start_of_turn>", "x"});
  builder.Remove("tokenizer.ggml.merges");
  builder.SetI32s("tokenizer.ggml.token_type", {3, 3, 3, 1, 4, 1, 3, 1});
  // What the file names comes first; <|end|> is plain text here, </s> and <start_of_turn> no ends.
  EXPECT_THAT(Read(builder)->eog, ElementsAre(2, 0, 4));
  builder.SetU32("tokenizer.ggml.eot_token_id", 7);
  EXPECT_THAT(Read(builder)->eog, ElementsAre(2, 7, 0, 4));
}

TEST(VocabularyTest, AddsBosWhereTheFamilyWasTrainedWithIt) {
  GgufBuilder builder = TinyLlama();
  builder.Remove("tokenizer.ggml.add_bos_token");
  EXPECT_FALSE(Read(builder)->add_bos);
  builder.SetString("tokenizer.ggml.pre", "llama-bpe");
  EXPECT_TRUE(Read(builder)->add_bos);
  builder.SetBool("tokenizer.ggml.add_bos_token", false);
  EXPECT_FALSE(Read(builder)->add_bos);
}

TEST(VocabularyTest, ReadsWhatSentencePieceNeeds) {
  GgufBuilder builder = TinyLlama();
  EXPECT_TRUE(Read(builder)->scores.empty());
  EXPECT_FALSE(Read(builder)->add_space_prefix);
  builder.SetString("tokenizer.ggml.model", "llama");
  builder.SetF32s("tokenizer.ggml.scores", {0, 0, 0, -1, -2, -3, -4.5f, -1e9f});
  EXPECT_THAT(Read(builder)->scores, ElementsAre(0, 0, 0, -1, -2, -3, -4.5f, -1e9f));
  EXPECT_TRUE(Read(builder)->add_space_prefix);
  builder.SetBool("tokenizer.ggml.add_space_prefix", false);
  EXPECT_FALSE(Read(builder)->add_space_prefix);
}

TEST(VocabularyTest, AMergeMayBeginWithABlank) {
  GgufBuilder builder = TinyLlama();
  builder.SetStrings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", " ", "b", "c", " b", "d"});
  builder.SetStrings("tokenizer.ggml.merges", {"  b"});
  EXPECT_TRUE(Read(builder).ok()) << Read(builder).status();
}

struct Contradiction {
  const char* what;
  std::function<void(GgufBuilder&)> spoil;
  const char* key;
  const char* reason;
};

void PrintTo(const Contradiction& contradiction, std::ostream* out) { *out << contradiction.what; }

class ContradictoryVocabularyTest : public testing::TestWithParam<Contradiction> {};

TEST_P(ContradictoryVocabularyTest, IsRefusedByFileKeyAndReason) {
  GgufBuilder builder = TinyLlama();
  GetParam().spoil(builder);
  const absl::Status status = Read(builder).status();
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(FieldOf(status), GetParam().key);
  EXPECT_THAT(std::string(status.message()),
              testing::StartsWith(std::string("tiny.gguf: ") + GetParam().key + ": "));
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    All, ContradictoryVocabularyTest,
    testing::Values(
        Contradiction{"no model", [](GgufBuilder& b) { b.Remove("tokenizer.ggml.model"); },
                      "tokenizer.ggml.model", "missing"},
        Contradiction{"no tokens", [](GgufBuilder& b) { b.Remove("tokenizer.ggml.tokens"); },
                      "tokenizer.ggml.tokens", "missing"},
        Contradiction{"tokens that are no strings",
                      [](GgufBuilder& b) {
                        b.SetI32s("tokenizer.ggml.tokens", {1, 2, 3, 4, 5, 6, 7, 8});
                      },
                      "tokenizer.ggml.tokens", "array of strings"},
        Contradiction{"fewer tokens than rows",
                      [](GgufBuilder& b) { b.SetStrings("tokenizer.ggml.tokens", {"a"}); },
                      "tokenizer.ggml.tokens", "token_embd.weight has 8 rows"},
        Contradiction{"no embedding", [](GgufBuilder& b) { b.RemoveTensor("token_embd.weight"); },
                      "token_embd.weight", "missing tensor"},
        Contradiction{"a type too few", [](GgufBuilder& b) { b.SetI32s("tokenizer.ggml.token_type", {1}); },
                      "tokenizer.ggml.token_type", "1 types for 8 tokens"},
        Contradiction{"an unknown type",
                      [](GgufBuilder& b) {
                        b.SetI32s("tokenizer.ggml.token_type", {1, 1, 1, 1, 1, 1, 1, 7});
                      },
                      "tokenizer.ggml.token_type", "unknown type 7"},
        Contradiction{"a negative type",
                      [](GgufBuilder& b) {
                        b.SetI32s("tokenizer.ggml.token_type", {1, 1, 1, 1, 1, 1, 1, -1});
                      },
                      "tokenizer.ggml.token_type", "unknown type -1"},
        Contradiction{"a score too few", [](GgufBuilder& b) { b.SetF32s("tokenizer.ggml.scores", {1}); },
                      "tokenizer.ggml.scores", "1 scores for 8 tokens"},
        Contradiction{"scores that are no floats",
                      [](GgufBuilder& b) {
                        b.SetI32s("tokenizer.ggml.scores", {1, 2, 3, 4, 5, 6, 7, 8});
                      },
                      "tokenizer.ggml.scores", "array of 32-bit floats"},
        Contradiction{"eos 2^32 - 1",
                      [](GgufBuilder& b) { b.SetU32("tokenizer.ggml.eos_token_id", 0xffffffff); },
                      "tokenizer.ggml.eos_token_id", "4294967295 is outside"},
        Contradiction{"eos at the size", [](GgufBuilder& b) { b.SetU32("tokenizer.ggml.eos_token_id", 8); },
                      "tokenizer.ggml.eos_token_id", "outside the vocabulary of 8"},
        Contradiction{"bos outside", [](GgufBuilder& b) { b.SetU32("tokenizer.ggml.bos_token_id", 9); },
                      "tokenizer.ggml.bos_token_id", "outside"},
        Contradiction{"eot outside", [](GgufBuilder& b) { b.SetU32("tokenizer.ggml.eot_token_id", 9); },
                      "tokenizer.ggml.eot_token_id", "outside"},
        Contradiction{"pad outside", [](GgufBuilder& b) { b.SetU32("tokenizer.ggml.padding_token_id", 9); },
                      "tokenizer.ggml.padding_token_id", "outside"},
        Contradiction{"a merge of an absent token",
                      [](GgufBuilder& b) {
                        b.SetStrings("tokenizer.ggml.merges", {"a b", "a z"});
                      },
                      "tokenizer.ggml.merges", "merge 1 names a token that is absent"},
        Contradiction{"a merge to an absent token",
                      [](GgufBuilder& b) { b.SetStrings("tokenizer.ggml.merges", {"a c"}); },
                      "tokenizer.ggml.merges", "absent"},
        Contradiction{"a merge of one part",
                      [](GgufBuilder& b) { b.SetStrings("tokenizer.ggml.merges", {"ab"}); },
                      "tokenizer.ggml.merges", "not two parts"},
        Contradiction{"an empty merge", [](GgufBuilder& b) { b.SetStrings("tokenizer.ggml.merges", {""}); },
                      "tokenizer.ggml.merges", "not two parts"},
        Contradiction{"BOS asked for and not named",
                      [](GgufBuilder& b) {
                        b.Remove("tokenizer.ggml.bos_token_id");
                        b.SetBool("tokenizer.ggml.add_bos_token", true);
                      },
                      "tokenizer.ggml.add_bos_token", "bos_token_id is missing"}));

}  // namespace
}  // namespace qanat::model
