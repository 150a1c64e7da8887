// A02: long runs without a break take near-linear time.
#include <time.h>

#include <algorithm>
#include <tuple>

#include "gtest/gtest.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat {
namespace {

// `unit` over and over, cut at `bytes`.
std::string RunOf(std::string_view unit, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  text.resize(bytes);
  return text;
}

const text::Tokenizer& SentencePiece() {
  static const auto& tokenizer = *new absl::StatusOr<std::unique_ptr<text::Tokenizer>>(
      golden::LoadTokenizer(golden::GoldenPath("tiny/gemma3.gguf")));
  QANAT_CHECK(tokenizer.ok()) << tokenizer.status().ToString();
  return **tokenizer;
}

// Milliseconds of this thread's processor time, so that a busy machine does not count.
double CpuMs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

// The best of three.
double EncodeMs(const text::Tokenizer& tokenizer, const std::string& text) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double begin = CpuMs();
    EXPECT_FALSE(tokenizer.Encode(text).empty());
    best = std::min(best, CpuMs() - begin);
  }
  return best;
}

using TokenizerOf = const text::Tokenizer& (*)();

class A02LongRunsTest : public testing::TestWithParam<std::tuple<TokenizerOf, const char*>> {};

// Linear is 10, quadratic 100. The bound lies between them, where a busy machine does not reach; how near to
// 10 it is (at most 15) is what common_text_benchmark shows.
TEST_P(A02LongRunsTest, TenTimesTheTextDoesNotTakeTheSquareOfTheTime) {
  const text::Tokenizer& tokenizer = std::get<0>(GetParam())();
  const double small = EncodeMs(tokenizer, RunOf(std::get<1>(GetParam()), 10000));
  const double large = EncodeMs(tokenizer, RunOf(std::get<1>(GetParam()), 100000));
  EXPECT_LE(large / small, 40) << small << " ms, " << large << " ms";
  EXPECT_LE(large, 1000);
}

// The last is ordinary text, which SentencePiece takes as one word.
constexpr const char* kUnits[] = {"a",
                                  " ",
                                  "=-",
                                  "\n",
                                  "\u6C34",
                                  "1",
                                  "\t",
                                  " \n",
                                  "'",
                                  "\x80",
                                  "\xF0\x9F\x94\xA5",
                                  "<|im_start",
                                  "Capacity is never held by someone who does not use it. "};

INSTANTIATE_TEST_SUITE_P(ByteLevel, A02LongRunsTest,
                         testing::Combine(testing::Values(&golden::RealTokenizer), testing::ValuesIn(kUnits)),
                         [](const auto& info) { return "Unit" + std::to_string(info.index); });
INSTANTIATE_TEST_SUITE_P(SentencePiece, A02LongRunsTest,
                         testing::Combine(testing::Values(&SentencePiece), testing::ValuesIn(kUnits)),
                         [](const auto& info) { return "Unit" + std::to_string(info.index); });

TEST(A02LongRunsCountTest, CountsAreTheReferences) {
  const text::Tokenizer& tokenizer = golden::RealTokenizer();
  EXPECT_EQ(tokenizer.Encode(RunOf("a", 100000)).size(), 25000u);
  EXPECT_EQ(tokenizer.Encode(RunOf(" ", 100000)).size(), 1563u);
  EXPECT_EQ(tokenizer.Encode(RunOf("=-", 100000)).size(), 50000u);
}

}  // namespace
}  // namespace qanat
