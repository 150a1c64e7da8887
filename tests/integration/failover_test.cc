// Workers die and come back.
#include <signal.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "common/base/error.h"
#include "common/rpc/options.h"
#include "gtest/gtest.h"
#include "tests/fakes/health_probe.h"
#include "tests/integration/cluster.h"

namespace qanat::integration {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A stream that goes on long enough to be hit.
struct LongStream {
  LongStream(Client& client, int salt)
      : thread([this, &client, salt] {
          answer = client.Generate(PromptOf(4, salt, 400));
          ended = std::chrono::steady_clock::now();
        }) {}
  ~LongStream() { Join(); }
  void Join() {
    if (thread.joinable()) thread.join();
  }

  Answer answer;
  std::chrono::steady_clock::time_point ended;
  std::thread thread;
};

class FailoverTest : public testing::Test {
 protected:
  double InFlight(size_t worker) {
    return cluster_.RouterMetrics().Sum("qanat_router_in_flight", cluster_.worker(worker).address);
  }
  double Generated(size_t worker) {
    return cluster_.WorkerMetrics(worker).Sum("qanat_worker_generated_tokens_total");
  }

  Cluster cluster_{2};
};

TEST_F(FailoverTest, AKilledWorkerIsLeftWithinASecondAndUsedAgainWhenItIsBack) {
  {
    LongStream streams[] = {
        {cluster_.client(), 1}, {cluster_.client(), 2}, {cluster_.client(), 3}, {cluster_.client(), 4}};
    ASSERT_TRUE(
        Eventually([&] { return InFlight(0) == 2 && InFlight(1) == 2 && Generated(0) >= 8; }, seconds(20)));
    cluster_.worker(0).process->Signal(SIGKILL);
    const auto killed = std::chrono::steady_clock::now();
    EXPECT_TRUE(cluster_.AwaitState(0, "down", seconds(1)));
    int lost = 0;
    for (LongStream& stream : streams) {
      stream.Join();
      if (stream.answer.status.ok()) {
        EXPECT_EQ(stream.answer.token_ids.size(), 400u);
        continue;
      }
      ++lost;
      EXPECT_TRUE(absl::IsUnavailable(stream.answer.status)) << stream.answer.status;
      EXPECT_EQ(ReasonOf(stream.answer.status), "WORKER_LOST");
      EXPECT_EQ(stream.answer.finish.reason(), v1::FINISH_REASON_ERROR);
      EXPECT_TRUE(stream.answer.in_order);
      EXPECT_LT(stream.ended - killed, seconds(1));
    }
    EXPECT_EQ(lost, 2) << "those of the dead worker, and no others";
  }
  // The other one serves everything.
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(cluster_.client().Generate(PromptOf(4, 10 + i, 2)).status.ok());
  }
  EXPECT_EQ(InFlight(0), 0);

  // Back in its place, it is used again.
  Server& worker = cluster_.worker(0);
  const std::string address = worker.address;
  worker = StartWorker({}, address);
  ASSERT_EQ(worker.address, address);
  ASSERT_TRUE(cluster_.AwaitState(0, "ready", seconds(5)));
  const double before = cluster_.RouterMetrics().Sum("qanat_router_dispatches_total", address);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(cluster_.client().Generate(PromptOf(4, 20 + i, 2)).status.ok());
  }
  EXPECT_EQ(cluster_.RouterMetrics().Sum("qanat_router_dispatches_total", address) - before, 2);
}

// Requests that have no token yet when their worker dies are answered all the same.
TEST_F(FailoverTest, BeforeTheFirstTokenADeathIsNotNoticed) {
  // Prompts long enough to be in prefill when it happens.
  constexpr int kCallers = 8;
  std::vector<Answer> answers(kCallers);
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] { answers[i] = cluster_.client().Generate(PromptOf(600, 50 + i, 2)); });
  }
  ASSERT_TRUE(Eventually([&] { return InFlight(0) + InFlight(1) == kCallers; }, seconds(20)));
  const bool early = Generated(0) == 0;
  cluster_.worker(0).process->Signal(SIGKILL);
  for (std::thread& caller : callers) caller.join();
  ASSERT_TRUE(early) << "it had begun to answer: nothing was proved";
  for (const Answer& answer : answers) {
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.token_ids.size(), 2u);
  }
}

TEST(RouterStartTest, ARouterWithoutWorkersAnswersAtOnceAndBeginsWhenOneComes) {
  Server worker = StartWorker();
  const std::string address = worker.address;
  worker.process.reset();
  Server router = StartRouter({address});
  Client client(router.address);
  const auto channel = rpc::MakeChannel(router.health);
  const auto before = std::chrono::steady_clock::now();
  const Answer refused = client.Generate(PromptOf(4, 1, 2));
  EXPECT_TRUE(absl::IsUnavailable(refused.status)) << refused.status;
  EXPECT_EQ(ReasonOf(refused.status), "NO_WORKER");
  EXPECT_LT(std::chrono::steady_clock::now() - before, seconds(1));
  EXPECT_EQ(fakes::ProbeHealth(channel, "readiness"), 2);

  worker = StartWorker({}, address);
  EXPECT_TRUE(Eventually([&] { return fakes::ProbeHealth(channel, "readiness") == 1; }, seconds(5)));
  EXPECT_TRUE(client.Generate(PromptOf(4, 1, 2)).status.ok());
}

TEST(RouterStopTest, SigtermLetsOpenStreamsEndAndExitsWithZero) {
  Cluster cluster(1);
  LongStream stream(cluster.client(), 1);
  ASSERT_TRUE(Eventually([&] { return cluster.RouterMetrics().Sum("qanat_router_relayed_tokens_total") > 4; },
                         seconds(20)));
  cluster.router().process->Signal(SIGTERM);
  stream.Join();
  EXPECT_TRUE(stream.answer.status.ok()) << stream.answer.status;
  EXPECT_EQ(stream.answer.token_ids.size(), 400u);
  EXPECT_EQ(cluster.router().process->Wait(seconds(10)), 0);
}

// Who has not heard yet that it is not ready may still come.
TEST(RouterStopTest, AfterSigtermCallsAreTakenForAMoment) {
  Cluster cluster(1);
  const auto health = rpc::MakeChannel(cluster.router().health);
  ASSERT_EQ(fakes::ProbeHealth(health, "readiness"), 1);
  ASSERT_TRUE(cluster.client().Generate(PromptOf(4, 1, 2)).status.ok()) << "connects";
  cluster.router().process->Signal(SIGTERM);
  ASSERT_TRUE(Eventually([&] { return fakes::ProbeHealth(health, "readiness") == 2; }, seconds(1)));
  const Answer answer = cluster.client().Generate(PromptOf(4, 1, 2));
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(cluster.router().process->Wait(seconds(10)), 0);
}

}  // namespace
}  // namespace qanat::integration
