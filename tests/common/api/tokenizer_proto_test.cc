#include "common/api/tokenizer_proto.h"

#include "common/base/error.h"
#include "gtest/gtest.h"
#include "tests/fakes/byte_level_vocabulary.h"
#include "tests/fakes/sentence_piece_vocabulary.h"

namespace qanat::api {
namespace {

TEST(TokenizerProtoTest, CarriesEveryFieldOfAVocabulary) {
  text::Vocabulary vocabulary = fakes::ByteLevelVocabulary({{"a", "b"}, {"ab", "c"}});
  vocabulary.add_bos = true;
  vocabulary.chat_template = "{{ messages }}";
  vocabulary.add_space_prefix = true;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) vocabulary.scores.push_back(-0.5f * i);
  vocabulary.kinds.back() = text::TokenKind::kUnused;
  cluster::v1::Tokenizer wire;
  ASSERT_TRUE(wire.ParseFromString(ToProto(vocabulary).SerializeAsString()));
  const auto back = FromProto(wire);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->model, vocabulary.model);
  EXPECT_EQ(back->pre, vocabulary.pre);
  EXPECT_EQ(back->tokens, vocabulary.tokens);
  EXPECT_EQ(back->kinds, vocabulary.kinds);
  EXPECT_EQ(back->merges, vocabulary.merges);
  EXPECT_EQ(back->bos, vocabulary.bos);
  EXPECT_EQ(back->eos, vocabulary.eos);
  EXPECT_EQ(back->unk, vocabulary.unk);
  EXPECT_EQ(back->pad, vocabulary.pad);
  EXPECT_EQ(back->eog, vocabulary.eog);
  EXPECT_EQ(back->add_bos, vocabulary.add_bos);
  EXPECT_EQ(back->chat_template, vocabulary.chat_template);
  EXPECT_EQ(back->scores, vocabulary.scores);
  EXPECT_EQ(back->add_space_prefix, vocabulary.add_space_prefix);
}

TEST(TokenizerProtoTest, GivesAnEqualTokenizer) {
  for (const text::Vocabulary& vocabulary :
       {fakes::ByteLevelVocabulary({{"t", "h"}, {"th", "e"}}),
        fakes::SentencePieceVocabulary({"th", "the", "t", "h", "e"}, true)}) {
    const auto original = text::Tokenizer::Create(vocabulary);
    const auto copy = text::Tokenizer::Create(*FromProto(ToProto(vocabulary)));
    ASSERT_TRUE(original.ok() && copy.ok());
    EXPECT_EQ((*original)->Encode("the theatre"), (*copy)->Encode("the theatre"));
  }
}

TEST(TokenizerProtoTest, RefusesListsThatDoNotFitAndUnknownKinds) {
  cluster::v1::Tokenizer proto = ToProto(fakes::ByteLevelVocabulary({}));
  proto.set_kinds(0, 0);
  EXPECT_EQ(FieldOf(FromProto(proto).status()), "kinds");
  proto.set_kinds(0, 7);
  EXPECT_EQ(FieldOf(FromProto(proto).status()), "kinds");
  proto.set_kinds(0, 6);
  EXPECT_TRUE(FromProto(proto).ok());
  proto.add_kinds(1);
  EXPECT_EQ(FieldOf(FromProto(proto).status()), "kinds");
  proto.mutable_kinds()->RemoveLast();
  proto.add_scores(1);
  EXPECT_EQ(FieldOf(FromProto(proto).status()), "scores");
}

}  // namespace
}  // namespace qanat::api
