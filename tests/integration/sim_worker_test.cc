// Workers whose device only takes the time.
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/temporary_file.h"
#include "tests/integration/cluster.h"

namespace qanat::integration {
namespace {

using testing::HasSubstr;

constexpr int kRequests = 24;
constexpr char kDevice[] =
    R"({"fixed_us": 300, "sequence_us": 10, "weights_us": 0, "token_us": 20, "context_us": 0, "attention_us": 0})";

v1::GenerateRequest MakeRequest(int i) {
  v1::GenerateRequest request = PromptOf(20 + 7 * i, 100 + i, 10 + i);
  request.mutable_sampling()->set_seed(static_cast<uint64_t>(i));
  if (i % 4 == 3) request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_ignore_eos(true);
  return request;
}

std::vector<Answer> AskAll(Client& client) {
  std::vector<Answer> answers(kRequests);
  std::vector<std::thread> callers;
  for (int i = 0; i < kRequests; ++i) {
    callers.emplace_back([&, i] { answers[i] = client.Generate(MakeRequest(i)); });
  }
  for (std::thread& caller : callers) caller.join();
  return answers;
}

TEST(SimWorkerTest, AnswersTheSameAgainAndElsewhereAndTellsWhatItIs) {
  const fakes::TemporaryFile model{std::string_view(kDevice)};
  const fakes::TemporaryFile steps{std::string_view("")};
  const Server worker =
      StartWorker({"--device=sim", "--sim-model", model.path(), "--step-log", steps.path()});
  const Server other = StartWorker({"--device=sim", "--chunk-tokens=16", "--kv-blocks", "64"});
  Client client(worker.address);
  Client other_client(other.address);
  const std::vector<Answer> answers = AskAll(client);
  const std::vector<Answer> again = AskAll(client);
  const std::vector<Answer> elsewhere = AskAll(other_client);
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(answers[i].status.ok()) << answers[i].status;
    EXPECT_EQ(answers[i].token_ids.size(), 10u + i);
    EXPECT_EQ(again[i].token_ids, answers[i].token_ids);
    EXPECT_EQ(elsewhere[i].token_ids, answers[i].token_ids);
    EXPECT_EQ(elsewhere[i].text, answers[i].text);
  }
  const MetricsPage metrics = MetricsPage::Scrape(worker.metrics);
  EXPECT_EQ(metrics.Sum("qanat_worker_info", "device=\"sim\""), 1);
  EXPECT_EQ(metrics.Sum("qanat_worker_info", "numerics=\"sim-"), 1) << "with the model's fingerprint";
  EXPECT_GT(metrics.Sum("qanat_worker_prefix_cache_hits_tokens_total"), 0) << "the cache is real";
  const double logged = metrics.Sum("qanat_worker_steps_total");

  worker.process->Signal(SIGTERM);
  EXPECT_EQ(worker.process->Wait(std::chrono::seconds(10)), 0);
  const Outcome fit = RunToEnd({Program("qanat"), "bench", "fit", "--log", steps.path()});
  EXPECT_EQ(fit.exit, 0) << fit.errors;
  EXPECT_THAT(fit.output, HasSubstr("fitted to " + std::to_string(static_cast<int>(logged)) + " steps"));
}

TEST(SimWorkerTest, TheRouterServesSimulatedWorkers) {
  Cluster cluster(2, {"--device=sim"});
  for (const Answer& answer : AskAll(cluster.client())) EXPECT_TRUE(answer.status.ok()) << answer.status;
}

TEST(SimWorkerTest, RefusesFlagsThatDoNotGoTogether) {
  const struct {
    Flags flags;
    const char* said;
  } cases[] = {
      {{"--sim-model=x"}, "--sim-model is for --device=sim"},
      {{"--device=cuda"}, "--device=cuda is not built yet"},
      {{"--device=abacus"}, "'abacus' is not cpu or sim"},
      {{"--device=sim", "--sim-model=/nowhere/model.json"}, "/nowhere/model.json"},
      {{"--device=sim", "--step-log=/nowhere/steps.csv"}, "/nowhere/steps.csv"},
  };
  for (const auto& one : cases) {
    Flags command = {Program("qanat-worker"), "--model", ModelPath(), "--listen=127.0.0.1:0"};
    command.insert(command.end(), one.flags.begin(), one.flags.end());
    const Outcome outcome = RunToEnd(command);
    EXPECT_NE(outcome.exit, 0);
    EXPECT_THAT(outcome.errors, HasSubstr(one.said));
    EXPECT_EQ(outcome.output, "") << "it said that it is ready";
  }
}

}  // namespace
}  // namespace qanat::integration
