#include "tools/qanat/load/tally.h"

#include <algorithm>
#include <numeric>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qanat::tools {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::Pair;

// Two milliseconds late; `ttft_ms` counts from when it was due.
RequestRecord Served(int ttft_ms, int tpot_ms, int tokens) {
  RequestRecord record;
  record.due = milliseconds(1000);
  record.sent = milliseconds(1002);
  record.first = record.due + milliseconds(ttft_ms);
  record.last = record.first + milliseconds(tpot_ms) * (tokens - 1);
  record.prompt_tokens = 100;
  record.cached_tokens = 16;
  record.wanted = record.tokens = tokens;
  return record;
}

TEST(TallyTest, PercentilesAreTheLeastThatSoManyDoNotExceed) {
  std::vector<double> values(200);
  std::iota(values.begin(), values.end(), 1);
  std::reverse(values.begin(), values.end());
  const Percentiles of = PercentilesOf(values);
  EXPECT_EQ(of.p50, 100);
  EXPECT_EQ(of.p90, 180);
  EXPECT_EQ(of.p99, 198);
  EXPECT_EQ(PercentilesOf({3}).p99, 3);
  EXPECT_EQ(PercentilesOf({}).p50, 0);
}

TEST(TallyTest, SumsUpWhatWasServed) {
  Tally tally;
  tally.Add(Served(10, 4, 11));
  tally.Add(Served(30, 6, 1));  // one token has no time per token
  const Summary summary = tally.Summarize(std::chrono::seconds(2), {});
  EXPECT_EQ(summary.served, 2);
  EXPECT_EQ(summary.prompt_tokens, 200);
  EXPECT_EQ(summary.cached_tokens, 32);
  EXPECT_EQ(summary.output_tokens, 12);
  EXPECT_DOUBLE_EQ(summary.PerSecond(summary.output_tokens), 6);
  EXPECT_DOUBLE_EQ(summary.ttft.p50, 10);
  EXPECT_DOUBLE_EQ(summary.ttft.p99, 30);
  EXPECT_DOUBLE_EQ(summary.tpot.p99, 4);
  EXPECT_DOUBLE_EQ(summary.late.p50, 2);
  EXPECT_EQ(summary.good, 2) << "without limits all are good";
}

TEST(TallyTest, GoodIsWhoKeepsBothLimits) {
  Tally tally;
  tally.Add(Served(10, 4, 11));
  tally.Add(Served(10, 6, 11));
  tally.Add(Served(30, 4, 11));
  tally.Add(Served(10, 0, 1));
  RequestRecord failed = Served(1, 1, 5);
  failed.status = absl::UnavailableError("lost");
  tally.Add(failed);
  const auto good = [&](Limits limits) { return tally.Summarize(std::chrono::seconds(1), limits).good; };
  EXPECT_EQ(good({}), 4);
  EXPECT_EQ(good({.ttft = milliseconds(10), .tpot = std::nullopt}), 3);
  EXPECT_EQ(good({.ttft = std::nullopt, .tpot = milliseconds(4)}), 3);
  EXPECT_EQ(good({.ttft = milliseconds(10), .tpot = milliseconds(4)}), 2);
}

TEST(TallyTest, AShortAnswerIsNeitherServedNorGood) {
  Tally tally;
  tally.Add(Served(10, 4, 11));
  RequestRecord record = Served(10, 4, 11);
  record.wanted = 12;
  tally.Add(record);
  // No token: no time to its first either, which must not pass as one before it was sent.
  record = RequestRecord();
  record.due = record.sent = milliseconds(500);
  record.wanted = 4;
  tally.Add(record);
  for (const Limits& limits : {Limits{}, Limits{.ttft = milliseconds(10), .tpot = milliseconds(4)}}) {
    const Summary summary = tally.Summarize(std::chrono::seconds(1), limits);
    EXPECT_EQ(summary.served, 1);
    EXPECT_EQ(summary.short_answers, 2);
    EXPECT_EQ(summary.good, 1);
    EXPECT_EQ(summary.output_tokens, 22) << "they were generated";
    EXPECT_TRUE(summary.refused.empty());
    EXPECT_TRUE(summary.commonest_refusal.ok());
  }
}

TEST(TallyTest, CountsRefusalsByCodeAndReasonAndInterruptionsApart) {
  Tally tally;
  RequestRecord refused;
  refused.status = WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL");
  tally.Add(refused);
  tally.Add(refused);
  refused.status = absl::DeadlineExceededError("late");  // earlier by the alphabet
  tally.Add(refused);
  refused.status = absl::CancelledError("Ctrl-C");
  refused.interrupted = true;
  tally.Add(refused);
  const Summary summary = tally.Summarize(std::chrono::seconds(1), {});
  EXPECT_THAT(summary.refused,
              ElementsAre(Pair("DEADLINE_EXCEEDED", 1), Pair("RESOURCE_EXHAUSTED QUEUE_FULL", 2)));
  EXPECT_EQ(summary.commonest_refusal, WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL"));
  EXPECT_EQ(summary.interrupted, 1);
  EXPECT_EQ(summary.served, 0);
  EXPECT_EQ(summary.prompt_tokens, 0) << "nothing of it was computed, as far as one can tell";
}

TEST(TallyTest, TokensOfOneMessageComeTogether) {
  Tally tally;
  tally.AddGap(milliseconds(8), 4);
  tally.AddGap(milliseconds(2), 1);
  const Summary summary = tally.Summarize(std::chrono::seconds(1), {});
  EXPECT_DOUBLE_EQ(summary.itl.p50, 0);
  EXPECT_DOUBLE_EQ(summary.itl.p90, 8);
}

}  // namespace
}  // namespace qanat::tools
