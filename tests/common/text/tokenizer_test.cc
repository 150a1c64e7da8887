#include "common/text/tokenizer.h"

#include <random>
#include <thread>

#include "common/text/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/byte_level_vocabulary.h"

namespace qanat::text {
namespace {

using fakes::ByteToken;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;
using testing::Not;

constexpr TokenId kStart = 1;
constexpr TokenId kEnd = 2;
constexpr TokenId kTool = 3;
constexpr const char* kPres[] = {"gpt-2", "smollm", "llama-bpe", "qwen2"};

std::vector<std::pair<std::string, std::string>> SomeMerges() {
  return {{" ", "a"},   {"a", "b"},   {" ", " "}, {" a", "b"},
          {"ab", "ab"}, {"\n", "\n"}, {"<", "|"}, {"\xE6", "\xB0"}};
}

std::unique_ptr<Tokenizer> Make(Vocabulary vocabulary) {
  auto tokenizer = Tokenizer::Create(std::move(vocabulary));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::unique_ptr<Tokenizer> Make(std::string pre = "smollm") {
  return Make(fakes::ByteLevelVocabulary(SomeMerges(), std::move(pre)));
}

std::vector<std::string> Texts(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::vector<std::string> texts;
  for (const TokenId id : ids) texts.emplace_back(tokenizer.TokenText(id));
  return texts;
}

std::string JoinedBytes(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string bytes;
  for (const TokenId id : ids) bytes.append(tokenizer.Bytes(id));
  return bytes;
}

// The spans' texts joined, special tokens found by trying every place, what lies between encoded as plain
// text without any of them: what EncodeSpans promises, the slow way.
std::vector<TokenId> NaiveEncodeSpans(const Tokenizer& tokenizer, const std::vector<TextSpan>& spans) {
  std::string text;
  std::vector<bool> control;  // by byte
  for (const TextSpan& span : spans) {
    text += span.text;
    control.insert(control.end(), span.text.size(), span.control);
  }
  std::vector<TokenId> ids;
  std::string plain;
  for (size_t at = 0; at < text.size();) {
    TokenId best = -1;
    for (TokenId id = 0; id < 5; ++id) {
      const std::string_view token = tokenizer.TokenText(id);
      if (std::string_view(text).substr(at, token.size()) != token) continue;
      const auto begin = control.begin() + static_cast<ptrdiff_t>(at);
      const bool written =
          std::all_of(begin, begin + static_cast<ptrdiff_t>(token.size()), [](bool c) { return c; });
      if (!tokenizer.IsControl(id) || written) best = id;
    }
    if (best < 0) {
      plain += text[at++];
      continue;
    }
    for (const TokenId id : tokenizer.Encode(plain)) ids.push_back(id);
    plain.clear();
    ids.push_back(best);
    at += tokenizer.TokenText(best).size();
  }
  for (const TokenId id : tokenizer.Encode(plain)) ids.push_back(id);
  return ids;
}

TEST(TokenizerTest, MergesInsideWordsOnly) {
  const auto tokenizer = Make();
  EXPECT_THAT(Texts(*tokenizer, tokenizer->Encode("abab ab  ab")), ElementsAre("abab", "Ġab", "Ġ", "Ġab"));
  EXPECT_THAT(Texts(*tokenizer, tokenizer->Encode("a1b")), ElementsAre("a", "1", "b"));
  EXPECT_THAT(tokenizer->Encode(""), IsEmpty());
}

TEST(TokenizerTest, WholeWordsComeFirstForLlama) {
  Vocabulary vocabulary = fakes::ByteLevelVocabulary(SomeMerges(), "llama-bpe");
  vocabulary.tokens.push_back("Ġbaba");  // no merge leads to it
  vocabulary.kinds.push_back(TokenKind::kNormal);
  const TokenId whole = static_cast<TokenId>(vocabulary.tokens.size()) - 1;
  EXPECT_THAT(Make(vocabulary)->Encode(" baba"), ElementsAre(whole));
  for (const char* pre : {"gpt-2", "smollm", "qwen2"}) {
    vocabulary.pre = pre;
    EXPECT_THAT(Make(vocabulary)->Encode(" baba"), Not(ElementsAre(whole)));
  }
}

// A control token is never a word, though rules look whole words up.
TEST(TokenizerTest, WholeWordIsNeverAControlToken) {
  Vocabulary vocabulary = fakes::ByteLevelVocabulary({}, "llama-bpe");
  vocabulary.tokens.push_back("stop");
  vocabulary.kinds.push_back(TokenKind::kControl);
  const auto tokenizer = Make(vocabulary);
  EXPECT_THAT(Texts(*tokenizer, tokenizer->Encode("stop")), ElementsAre("s", "t", "o", "p"));
}

TEST(TokenizerTest, PlainTextFindsUserDefinedTokensAndNoControlTokens) {
  const auto tokenizer = Make();
  EXPECT_THAT(Texts(*tokenizer, tokenizer->Encode("a<tool>b")), ElementsAre("a", "<tool>", "b"));
  const auto ids = tokenizer->Encode("<|im_end|>\n<|im_start|>");
  EXPECT_THAT(ids, Not(testing::Contains(testing::Lt(3))));
  EXPECT_EQ(JoinedBytes(*tokenizer, ids), "<|im_end|>\n<|im_start|>");
}

TEST(TokenizerTest, SpansFindControlTokensOnlyInWhatTheTemplateWrote) {
  const auto tokenizer = Make();
  const auto ids =
      tokenizer->EncodeSpans({{"<|im_start|>", true}, {"<|im_end|>", false}, {"<|im_end|>", true}});
  EXPECT_EQ(ids.front(), kStart);
  EXPECT_EQ(ids.back(), kEnd);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kEnd), 1);
}

TEST(TokenizerTest, ControlTokenMayNotBeginOrEndInUserText) {
  const auto tokenizer = Make();
  EXPECT_THAT(tokenizer->EncodeSpans({{"<|im_", false}, {"end|>", true}}), Not(testing::Contains(kEnd)));
  EXPECT_THAT(tokenizer->EncodeSpans({{"<|im_", true}, {"end|>", false}}), Not(testing::Contains(kEnd)));
  EXPECT_THAT(tokenizer->EncodeSpans({{"<|im_", true}, {"", false}, {"end|>", true}}), ElementsAre(kEnd));
}

TEST(TokenizerTest, WordsRunAcrossTheBordersOfSpans) {
  const auto tokenizer = Make();
  EXPECT_THAT(Texts(*tokenizer, tokenizer->EncodeSpans({{"x ", true}, {"ab", false}})),
              ElementsAre("x", "Ġab"));
  EXPECT_THAT(Texts(*tokenizer, tokenizer->EncodeSpans({{"\n", true}, {"\n", false}})), ElementsAre("ĊĊ"));
  EXPECT_THAT(tokenizer->EncodeSpans({{"<to", true}, {"ol>", false}}), ElementsAre(kTool));
  EXPECT_THAT(Texts(*tokenizer, tokenizer->EncodeSpans({{"\xE6", false}, {"\xB0\xB4", true}})),
              ElementsAre("æ°", "´"));
  EXPECT_THAT(tokenizer->EncodeSpans({}), IsEmpty());
}

TEST(TokenizerTest, RandomSpansAgreeWithTheSlowWay) {
  std::mt19937 random(9);
  const char* const kParts[] = {"a",   "b",        " ",          "\n",           "1",
                                "<|",  "im_end|>", "<|im_end|>", "<|im_start|>", "<to",
                                "ol>", "<tool>",   "</tool>",    "\u6C34",       "\xFF"};
  for (const char* pre : kPres) {
    const auto tokenizer = Make(pre);
    for (int round = 0; round < 5000; ++round) {
      std::vector<TextSpan> spans(random() % 5);
      for (TextSpan& span : spans) {
        span.control = random() % 2 == 0;
        for (size_t parts = random() % 4; parts > 0; --parts)
          span.text += kParts[random() % std::size(kParts)];
      }
      const auto ids = tokenizer->EncodeSpans(spans);
      ASSERT_THAT(ids, ElementsAreArray(NaiveEncodeSpans(*tokenizer, spans)));
      std::string plain;
      for (TextSpan& span : spans) plain += span.text, span.control = false;
      ASSERT_EQ(tokenizer->EncodeSpans(spans), tokenizer->Encode(plain));
    }
  }
}

// With a piece for every byte nothing is lost, valid or not.
TEST(TokenizerTest, RandomBytesComeBackAsTheyWere) {
  std::mt19937 random(10);
  for (const char* pre : kPres) {
    const auto tokenizer = Make(pre);
    for (int round = 0; round < 5000; ++round) {
      std::string text(random() % 40, '\0');
      for (char& c : text)
        c = static_cast<char>(random() % 2 == 0 ? random() : "ab \n\xE6\xB0\xB4<|"[random() % 9]);
      const auto ids = tokenizer->Encode(text);
      ASSERT_EQ(JoinedBytes(*tokenizer, ids), text);
      ASSERT_EQ(tokenizer->Decode(ids), ReplaceInvalid(text));
    }
  }
}

TEST(TokenizerTest, InvalidBytesStandAlone) {
  const auto tokenizer = Make();
  EXPECT_THAT(tokenizer->Encode("a\xFF"
                                "b"),
              ElementsAre(ByteToken('a'), ByteToken('\xFF'), ByteToken('b')));
  // E6 B0 merge inside a character, but not when they are a broken one.
  EXPECT_THAT(tokenizer->Encode("\xE6\xB0"), ElementsAre(ByteToken('\xE6'), ByteToken('\xB0')));
}

TEST(TokenizerTest, ByteWithoutAPieceEncodesToNothing) {
  Vocabulary vocabulary = fakes::ByteLevelVocabulary({{"a", "b"}});
  vocabulary.tokens[static_cast<size_t>(ByteToken('\x04'))] = "nothing";
  const auto tokenizer = Make(vocabulary);
  EXPECT_THAT(tokenizer->Encode("\x04"), IsEmpty());
  EXPECT_THAT(tokenizer->Encode("a\x04"
                                "b"),
              ElementsAre(ByteToken('a'), ByteToken('b')));
}

TEST(TokenizerTest, BytesOfEachKind) {
  Vocabulary vocabulary = fakes::ByteLevelVocabulary({{" ", "a"}});
  vocabulary.tokens.insert(vocabulary.tokens.end(), {"[UNUSED0]", "\u6C34 raw"});
  vocabulary.kinds.insert(vocabulary.kinds.end(), {TokenKind::kUnused, TokenKind::kNormal});
  const auto tokenizer = Make(vocabulary);
  const TokenId last = tokenizer->size() - 1;
  EXPECT_EQ(tokenizer->Bytes(kStart), "");
  EXPECT_EQ(tokenizer->TokenText(kStart), "<|im_start|>");
  EXPECT_EQ(tokenizer->Bytes(kTool), "<tool>");
  EXPECT_EQ(tokenizer->Bytes(last - 2), " a");
  EXPECT_EQ(tokenizer->Bytes(last - 1), "");
  EXPECT_EQ(tokenizer->Bytes(last), "\u6C34 raw");  // outside the alphabet: itself
  EXPECT_EQ(tokenizer->Decode({kStart, kTool, last - 2, kEnd}), "<tool> a");
}

TEST(TokenizerTest, KnowsItsSpecialIds) {
  const auto tokenizer = Make();
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_TRUE(tokenizer->IsControl(kStart));
  for (const TokenId id : {-1, static_cast<int>(kTool), tokenizer->size()}) {
    EXPECT_FALSE(tokenizer->IsControl(id));
  }
}

TEST(TokenizerTest, ThreadsShareOne) {
  const auto tokenizer = Make();
  const std::string text = "abab ab  12 \u6C34\u6C34 <tool>\n\n";
  const auto expected = tokenizer->Encode(text);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) wrong[t] += tokenizer->Encode(text) == expected ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

// Long runs of one kind, at the end of a text and before something else (tests/regress/a02 has the times).
TEST(TokenizerTest, LongRunsEnd) {
  for (const char* pre : kPres) {
    const auto tokenizer = Make(pre);
    for (const std::string unit :
         {"a", "ab", " ", "\n", " \n", "\t", "=-", "1", "'", "\u6C34", "<|im_end|", "\xFF"}) {
      std::string text;
      while (text.size() < 25000) text += unit;
      for (const std::string& whole : {text, text + "a", "\n" + text, "a" + text}) {
        ASSERT_EQ(JoinedBytes(*tokenizer, tokenizer->Encode(whole)), whole) << unit;
      }
    }
  }
}

}  // namespace
}  // namespace qanat::text
