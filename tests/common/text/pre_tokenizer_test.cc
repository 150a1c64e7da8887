#include "common/text/pre_tokenizer.h"

#include <algorithm>
#include <random>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qanat::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<std::string>;

Words Split(const PreTokenizer& rules, std::string_view text) {
  Words words;
  rules.Split(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

Words Split(std::string_view pre, std::string_view text) { return Split(*PreTokenizer::Create(pre), text); }

// ---- A second splitter, written from the rules in words, over the letters of a small alphabet.

struct Letter {
  const char* utf8;
  char kind;  // L letter, N number, S white space, R line end (also white space), P anything else
};

constexpr Letter kLetters[] = {
    {"a", 'L'},      {"s", 'L'},      {"T", 'L'},      {"l", 'L'},         {"\u00E9", 'L'}, {"\u6C34", 'L'},
    {"1", 'N'},      {"\u00B2", 'N'}, {"\u0663", 'N'}, {" ", 'S'},         {" ", 'S'},      {"\t", 'S'},
    {"\u00A0", 'S'}, {"\u3000", 'S'}, {"\u0085", 'S'}, {"\n", 'R'},        {"\r", 'R'},     {"'", 'P'},
    {"-", 'P'},      {"\u180E", 'P'}, {"\u0301", 'P'}, {"\U0001F525", 'P'}};

bool IsSpace(const Letter& c) { return c.kind == 'S' || c.kind == 'R'; }
bool Is(const Letter& c, std::string_view text) { return c.utf8 == text; }

using Text = std::vector<Letter>;

size_t EndOf(const Text& text, size_t at, char kind) {
  while (at < text.size() && text[at].kind == kind) ++at;
  return at;
}

// The end of a contraction such as 's or 'll that begins at `at`, else `at`.
size_t ContractionEnd(const Text& text, size_t at, bool any_case) {
  if (!Is(text[at], "'") || at + 1 == text.size()) return at;
  const Letter& next = text[at + 1];
  if (Is(next, "s") || (any_case && Is(next, "T"))) return at + 2;
  if (Is(next, "l") && at + 2 < text.size() && Is(text[at + 2], "l")) return at + 3;
  return at;
}

// A run of white space: all of it at the end of the text, else all but its last, which belongs to what
// follows; a run of one stands alone.
size_t SpaceEnd(const Text& text, size_t at) {
  size_t end = at;
  while (end < text.size() && IsSpace(text[end])) ++end;
  return end < text.size() && end - at > 1 ? end - 1 : end;
}

size_t Gpt2WordEnd(const Text& text, size_t at) {
  if (const size_t end = ContractionEnd(text, at, false); end > at) return end;
  const size_t first = Is(text[at], " ") && at + 1 < text.size() ? at + 1 : at;
  if (!IsSpace(text[first])) return EndOf(text, first, text[first].kind);
  return SpaceEnd(text, at);
}

size_t LaterWordEnd(const Text& text, size_t at, size_t most_digits) {
  if (const size_t end = ContractionEnd(text, at, true); end > at) return end;
  const char kind = text[at].kind;
  const bool may_lead = kind == 'S' || kind == 'P';
  const size_t first = may_lead && at + 1 < text.size() ? at + 1 : at;
  if (text[first].kind == 'L') return EndOf(text, first, 'L');
  if (kind == 'L') return EndOf(text, at, 'L');
  if (kind == 'N') return std::min(EndOf(text, at, 'N'), at + most_digits);
  const size_t sign = Is(text[at], " ") && at + 1 < text.size() ? at + 1 : at;
  if (text[sign].kind == 'P') return EndOf(text, EndOf(text, sign, 'P'), 'R');
  size_t line_end = at;
  for (size_t i = at; i < text.size() && IsSpace(text[i]); ++i) {
    if (text[i].kind == 'R') line_end = i + 1;
  }
  return line_end > at ? line_end : SpaceEnd(text, at);
}

size_t LlamaWordEnd(const Text& text, size_t at) { return LaterWordEnd(text, at, 3); }
size_t QwenWordEnd(const Text& text, size_t at) { return LaterWordEnd(text, at, 1); }

Words NaiveSplit(const Text& text, size_t (*word_end)(const Text&, size_t)) {
  Words words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = word_end(text, at);
    words.emplace_back();
    for (; at < end; ++at) words.back() += text[at].utf8;
  }
  return words;
}

Words NaiveSmollm(const Text& text) {
  Words words;
  for (size_t at = 0; at < text.size();) {
    const auto begin = text.begin() + static_cast<ptrdiff_t>(at);
    const bool digit = begin->kind == 'N';
    const auto end =
        digit ? begin + 1 : std::find_if(begin, text.end(), [](const Letter& c) { return c.kind == 'N'; });
    const Words piece = NaiveSplit(Text(begin, end), Gpt2WordEnd);
    words.insert(words.end(), piece.begin(), piece.end());
    at += static_cast<size_t>(end - begin);
  }
  return words;
}

TEST(PreTokenizerTest, SmollmIsolatesDigitsBeforeWordsAreFound) {
  EXPECT_THAT(Split("smollm", "It costs  5 USD"), ElementsAre("It", " costs", "  ", "5", " USD"));
  EXPECT_THAT(Split("smollm", "   12"), ElementsAre("   ", "1", "2"));
  EXPECT_THAT(Split("smollm", "\n\n1."), ElementsAre("\n\n", "1", "."));
  EXPECT_THAT(Split("smollm", "a  b"), ElementsAre("a", " ", " b"));
  EXPECT_THAT(Split("smollm", "we'll don't I'LL"), ElementsAre("we", "'ll", " don", "'t", " I", "'", "LL"));
}

TEST(PreTokenizerTest, Gpt2TakesDigitsAsAWordWithItsBlank) {
  EXPECT_THAT(Split("gpt-2", "It costs  512 USD"), ElementsAre("It", " costs", " ", " 512", " USD"));
  EXPECT_THAT(Split("gpt-2", "\n\n1."), ElementsAre("\n", "\n", "1", "."));
}

TEST(PreTokenizerTest, QwenTakesOneDigitAndAnySignBeforeAWord) {
  EXPECT_THAT(Split("qwen2", "12 (a)I'LL"), ElementsAre("1", "2", " (", "a", ")I", "'LL"));
  EXPECT_THAT(Split("qwen2", "end.\n\n  x"), ElementsAre("end", ".\n\n", " ", " x"));
}

TEST(PreTokenizerTest, LlamaTakesThreeDigitsAndAnySignBeforeAWord) {
  EXPECT_THAT(Split("llama-bpe", "12345 (a)"), ElementsAre("123", "45", " (", "a", ")"));
  EXPECT_THAT(Split("llama-bpe", "(a) I'LL\tgo"), ElementsAre("(a", ")", " I", "'LL", "\tgo"));
  EXPECT_THAT(Split("llama-bpe", "end.\n\n  x"), ElementsAre("end", ".\n\n", " ", " x"));
  EXPECT_THAT(Split("llama-bpe", " \n \n  x"), ElementsAre(" \n \n", " ", " x"));
}

TEST(PreTokenizerTest, NothingGivesNoWord) {
  EXPECT_THAT(Split("smollm", ""), ElementsAre());
  EXPECT_THAT(Split("llama-bpe", ""), ElementsAre());
}

TEST(PreTokenizerTest, UnknownNameIsRefusedWithTheKnownOnes) {
  const absl::Status status = PreTokenizer::Create("no-such-thing").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(FieldOf(status), "tokenizer.ggml.pre");
  EXPECT_THAT(std::string(status.message()), HasSubstr("no-such-thing"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("gpt-2, smollm, llama-bpe, qwen2"));
}

TEST(PreTokenizerTest, RandomTextsAgreeWithTheRulesInWords) {
  std::mt19937 random(8);
  const PreTokenizer gpt2 = *PreTokenizer::Create("gpt-2");
  const PreTokenizer qwen = *PreTokenizer::Create("qwen2");
  const PreTokenizer smollm = *PreTokenizer::Create("smollm");
  const PreTokenizer llama = *PreTokenizer::Create("llama-bpe");
  for (int round = 0; round < 50000; ++round) {
    Text letters(random() % 12);
    std::string text;
    for (Letter& letter : letters) {
      letter = kLetters[random() % std::size(kLetters)];
      text += letter.utf8;
    }
    ASSERT_EQ(Split(gpt2, text), NaiveSplit(letters, Gpt2WordEnd)) << text;
    ASSERT_EQ(Split(smollm, text), NaiveSmollm(letters)) << text;
    ASSERT_EQ(Split(qwen, text), NaiveSplit(letters, QwenWordEnd)) << text;
    ASSERT_EQ(Split(llama, text), NaiveSplit(letters, LlamaWordEnd)) << text;
  }
}

}  // namespace
}  // namespace qanat::text
