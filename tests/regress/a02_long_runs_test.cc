// A02: long runs without a break take near-linear time.
#include <time.h>

#include <algorithm>

#include "gtest/gtest.h"
#include "tests/golden/golden_tokenizer.h"

namespace qanat {
namespace {

std::string Repeat(std::string_view unit, size_t times) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += unit;
  return text;
}

// Milliseconds of this thread's processor time, so that a busy machine does not count.
double CpuMs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

// The best of three.
double EncodeMs(const std::string& text) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double begin = CpuMs();
    EXPECT_FALSE(golden::RealTokenizer().Encode(text).empty());
    best = std::min(best, CpuMs() - begin);
  }
  return best;
}

class A02LongRunsTest : public testing::TestWithParam<const char*> {};

TEST_P(A02LongRunsTest, TenTimesTheTextTakesAtMostFifteenTimesAsLong) {
  const double small = EncodeMs(Repeat(GetParam(), 10000));
  const double large = EncodeMs(Repeat(GetParam(), 100000));
  EXPECT_LE(large / small, 15) << small << " ms, " << large << " ms";
  EXPECT_LE(large, 200);
}

INSTANTIATE_TEST_SUITE_P(Units, A02LongRunsTest,
                         testing::Values("a", " ", "=-", "\n", "\u6C34", "1", "\t", " \n", "'", "\x80",
                                         "<|im_start"),
                         [](const auto& info) { return "Unit" + std::to_string(info.index); });

TEST(A02LongRunsCountTest, CountsAreTheReferences) {
  const text::Tokenizer& tokenizer = golden::RealTokenizer();
  EXPECT_EQ(tokenizer.Encode(Repeat("a", 100000)).size(), 25000u);
  EXPECT_EQ(tokenizer.Encode(Repeat(" ", 100000)).size(), 1563u);
  EXPECT_EQ(tokenizer.Encode(Repeat("=-", 50000)).size(), 50000u);
}

}  // namespace
}  // namespace qanat
