// Callers who leave give back what they held.
#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/metrics/catalogue.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"

namespace qanat::integration {
namespace {

using std::chrono::seconds;

// Nothing is referenced, running or waiting.
bool IsIdle(const MetricsPage& worker) {
  const std::string blocks = "qanat_worker_kv_blocks";
  const double free = worker.Sum(blocks, "state=\"free\"");
  const double cached = worker.Sum(blocks, "state=\"cached\"");
  const double referenced = worker.Sum(blocks, "state=\"referenced\"");
  return free + cached > 0 && referenced == 0 && worker.Sum("qanat_worker_requests_running") == 0 &&
         worker.Sum("qanat_worker_requests_waiting") == 0;
}

TEST(CancellationIntegrationTest, FiveHundredStreamsCutAtRandomLeaveNothingBehind) {
  constexpr int kCallers = 16;
  constexpr int kStreams = 500;
  constexpr int kBlocks = 200;
  Cluster cluster(2, {"--kv-blocks", std::to_string(kBlocks)});
  std::atomic<int> next = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c) {
    callers.emplace_back([&, c] {
      std::mt19937 random(c);
      for (int i; (i = next++) < kStreams;) {
        const int messages = static_cast<int>(random() % 6);
        EXPECT_TRUE(cluster.client().GenerateAndLeave(PromptOf(1 + i % 20, i, 100), messages))
            << "stream " << i;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();

  for (size_t i = 0; i < cluster.size(); ++i) {
    EXPECT_TRUE(Eventually([&] { return IsIdle(cluster.WorkerMetrics(i)); }, seconds(1))) << "worker " << i;
    const MetricsPage page = cluster.WorkerMetrics(i);
    EXPECT_EQ(page.Sum("qanat_worker_kv_blocks", "state=\"free\"") +
                  page.Sum("qanat_worker_kv_blocks", "state=\"cached\""),
              kBlocks);
  }
  EXPECT_TRUE(
      Eventually([&] { return cluster.RouterMetrics().Sum("qanat_router_in_flight") == 0; }, seconds(1)));
  // Neither worker got more than its share, although so many calls never ended by themselves.
  const MetricsPage router = cluster.RouterMetrics();
  const double all = router.Sum("qanat_router_dispatches_total");
  for (size_t i = 0; i < cluster.size(); ++i) {
    EXPECT_LE(router.Sum("qanat_router_dispatches_total", cluster.worker(i).address), 0.6 * all);
  }
  const Answer after = cluster.client().Generate(PromptOf(5, 1, 3));
  EXPECT_TRUE(after.status.ok()) << after.status;
  EXPECT_EQ(after.token_ids.size(), 3u);
}

// Every metric of the catalogue that is the router's or a worker's shows in a scrape of one that has served.
TEST(MetricsIntegrationTest, EveryMetricOfTheCatalogueIsScraped) {
  Cluster cluster(1);
  ASSERT_TRUE(cluster.client().Generate(PromptOf(20, 1, 4)).status.ok());
  EXPECT_TRUE(Eventually(
      [&] { return cluster.RouterMetrics().Sum("qanat_router_requests_total", "code=\"OK\"") == 1; },
      seconds(1)));
  const MetricsPage router = cluster.RouterMetrics();
  const MetricsPage worker = cluster.WorkerMetrics(0);
  for (const metrics::Metric& metric : metrics::Catalogue()) {
    const std::string name(metric.name);
    const bool of_router = name.rfind("qanat_router_", 0) == 0;
    const bool of_worker = name.rfind("qanat_worker_", 0) == 0;
    EXPECT_TRUE(of_worker || router.Has(name)) << name;
    EXPECT_TRUE(of_router || worker.Has(name)) << name;
  }
}

}  // namespace
}  // namespace qanat::integration
