// `qanat bench serve` against a router and a worker.
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/temporary_file.h"
#include "tests/integration/cluster.h"

namespace qanat::integration {
namespace {

using testing::HasSubstr;
using testing::Not;

class BenchServeTest : public testing::Test {
 protected:
  Flags Command(const Flags& flags) {
    Flags command = {Program("qanat"), "bench", "serve", "--target", cluster_.router().address};
    command.insert(command.end(), flags.begin(), flags.end());
    return command;
  }

  nlohmann::json Report(Flags flags) {
    flags.push_back("--json");
    const Outcome outcome = RunToEnd(Command(flags));
    EXPECT_EQ(outcome.exit, 0) << outcome.errors;
    return nlohmann::json::parse(outcome.output);
  }

  Cluster cluster_{1};
};

TEST_F(BenchServeTest, CountsWhatItSentAndGot) {
  const nlohmann::json closed = Report({"--streams", "3", "--requests", "6", "--own", "20", "--output", "4"});
  EXPECT_EQ(closed["streams"], 3);
  EXPECT_EQ(closed["requests"], 6);
  EXPECT_EQ(closed["served"], 6);
  EXPECT_EQ(closed["short"], 0);
  EXPECT_EQ(closed["prompt_tokens"], 120);
  EXPECT_EQ(closed["output_tokens"], 24);
  EXPECT_GT(closed["tokens_per_second"], 0);
  EXPECT_GT(closed["ttft_ms"]["p50"], 0);
  EXPECT_LE(closed["itl_ms"]["p50"], closed["itl_ms"]["p99"]);

  // One after the other: the second of a group finds what the first has left, but not the first of a group.
  const nlohmann::json groups = Report({"--streams", "1", "--requests", "4", "--groups", "2", "--shared",
                                        "64", "--own", "8", "--output", "1"});
  EXPECT_EQ(groups["cached_tokens"], 2 * 64);

  // The second turn finds the first turn's prompt and answer: 40 tokens in blocks of 16, the last token drawn
  // being nowhere yet.
  const nlohmann::json turns = Report(
      {"--streams", "1", "--requests", "1", "--turns", "2", "--own", "30", "--output", "10", "--seed", "5"});
  EXPECT_EQ(turns["served"], 2);
  EXPECT_EQ(turns["prompt_tokens"], 30 + 70);
  EXPECT_EQ(turns["cached_tokens"], 32);

  EXPECT_EQ(RunToEnd(Command({"--rate", "1", "--streams", "1"})).exit, 2);
}

TEST_F(BenchServeTest, SaysWhyNothingWasServed) {
  const Outcome outcome =
      RunToEnd(Command({"--rate", "50", "--requests", "5", "--own", "9000", "--ttft-limit", "1s"}));
  EXPECT_EQ(outcome.exit, 3) << "longer than the context, all of them";
  EXPECT_THAT(outcome.output, HasSubstr("open loop, 5 requests"));
  EXPECT_THAT(outcome.output, HasSubstr("refused    5 INVALID_ARGUMENT PROMPT_TOO_LONG"));
  EXPECT_THAT(outcome.output, HasSubstr("goodput    0.00"));
  EXPECT_THAT(outcome.errors, HasSubstr("the prompt has 9000 tokens"));
  EXPECT_THAT(outcome.errors, Not(HasSubstr("hint")));
}

TEST_F(BenchServeTest, HasRequestsForAllStreams) {
  const nlohmann::json report = Report({"--streams", "20", "--own", "1", "--output", "1"});
  EXPECT_EQ(report["streams"], 20);
  EXPECT_EQ(report["requests"], 80);
  EXPECT_EQ(report["served"], 80);
  const Outcome few = RunToEnd(Command({"--streams", "20", "--requests", "19"}));
  EXPECT_EQ(few.exit, 2);
  EXPECT_THAT(few.errors, HasSubstr("--requests 19 cannot keep --streams 20 busy"));
}

TEST_F(BenchServeTest, ReplaysATrace) {
  const std::string line = R"("input_length": 1100, "output_length": 64, "hash_ids": [0, 1, )";
  const std::string lines = "{\"timestamp\": 0, " + line + "2]}\n{\"timestamp\": 400, " + line + "3]}\n";
  const fakes::TemporaryFile trace(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(lines.data()), lines.size()));
  const nlohmann::json report = Report({"--trace", trace.path(), "--speedup", "2", "--shrink", "16"});
  EXPECT_EQ(report["served"], 2);
  EXPECT_EQ(report["prompt_tokens"], 2 * (32 + 32 + 5));
  EXPECT_EQ(report["output_tokens"], 2 * 4);
  EXPECT_GE(report["seconds"], 0.2);
}

TEST_F(BenchServeTest, ReportsWhatItHasWhenInterrupted) {
  Flags flags = Command({"--requests", "100000", "--own", "8", "--output", "8", "--streams", "2"});
  Process load(flags, std::string(testing::TempDir()) + "bench_serve.log");
  // Two streams: when the worker has ended a third request, the load knows the end of the first.
  ASSERT_TRUE(Eventually([&] { return cluster_.WorkerMetrics(0).Sum("qanat_worker_requests_total") >= 3; },
                         std::chrono::seconds(20)));
  load.Signal(SIGINT);
  EXPECT_NE(load.AwaitLine("interrupted with", std::chrono::seconds(20)), "");
  EXPECT_NE(load.AwaitLine("client", std::chrono::seconds(20)), "");
  EXPECT_EQ(load.Wait(std::chrono::seconds(20)), 0);
}

TEST_F(BenchServeTest, FailsWhenInterruptedBeforeAnythingWasServed) {
  const std::string log = std::string(testing::TempDir()) + "bench_serve_early.log";
  std::remove(log.c_str());
  Process load(Command({"--requests", "1", "--output", "6000", "--streams", "1"}), log);
  // It has begun when the worker says so.
  ASSERT_TRUE(Eventually([&] { return cluster_.StatusOf(0).running() > 0; }, std::chrono::seconds(20)));
  load.Signal(SIGINT);
  EXPECT_NE(load.AwaitLine("interrupted with 1 requests open", std::chrono::seconds(20)), "");
  EXPECT_EQ(load.Wait(std::chrono::seconds(20)), 1);
  std::ifstream file(log);
  const std::string errors((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_THAT(errors, HasSubstr("interrupted before anything was served"));
}

}  // namespace
}  // namespace qanat::integration
