// What the router knows of its workers, against what they are.
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"

namespace qanat::integration {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Flags kAudited = {"--policy", "prefix_cost", "--log-level", "debug", "--log-format", "json"};

// What a decision expected of the cache, and what the worker found there.
struct Outcome {
  int expected = 0;
  int found = 0;
};

int NumberAfter(const std::string& line, const std::string& key) {
  const size_t at = line.find("\"" + key + "\":");
  return at == std::string::npos ? -1 : std::atoi(line.c_str() + at + key.size() + 3);
}

// Of all calls that ended well, as the router's log has them.
std::vector<Outcome> Outcomes(const Server& router) {
  std::vector<Outcome> outcomes;
  std::ifstream log(router.log);
  for (std::string line; std::getline(log, line);) {
    if (line.find("\"route outcome\"") == std::string::npos) continue;
    outcomes.push_back({NumberAfter(line, "expected_hit_tokens"), NumberAfter(line, "hit_tokens")});
  }
  return outcomes;
}

// Runs `work(i)` for i below `count`, on so many threads.
template <typename Work>
void RunOnThreads(int threads, int count, Work work) {
  std::atomic<int> next = 0;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      for (int i; (i = next++) < count;) work(i);
    });
  }
  for (std::thread& thread : all) thread.join();
}

// The worker's own count of blocks that requests may hit, when nothing runs.
double CachedBlocks(const Cluster& cluster, size_t worker) {
  return cluster.WorkerMetrics(worker).Sum("qanat_worker_kv_blocks", "state=\"cached\"");
}

// The router's index of the worker is the worker's cache.
bool IndexIsEqual(const Cluster& cluster, size_t worker, double cached_blocks) {
  const v1::WorkerStatus status = cluster.StatusOf(worker);
  return status.digest_ok() && static_cast<double>(status.index_blocks()) == cached_blocks;
}

// Until `condition` is true, `patience` at most.
template <typename Condition>
milliseconds TimeUntil(Condition condition, milliseconds patience) {
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(Eventually(condition, patience));
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - began);
}

TEST(WatchIntegrationTest, WhatIsExpectedOfTheCachesIsFoundThere) {
  constexpr int kRequests = 200;
  constexpr int kPrefixes = 10;
  Cluster cluster(2, {}, kAudited);
  RunOnThreads(4, kRequests, [&](int i) {
    const Answer answer = cluster.client().Generate(PromptOf(64, i % kPrefixes, 10, 1000 + i, 4));
    EXPECT_TRUE(answer.status.ok()) << answer.status;
  });
  for (size_t i = 0; i < cluster.size(); ++i) {
    const double cached = CachedBlocks(cluster, i);
    const milliseconds took = TimeUntil([&] { return IndexIsEqual(cluster, i, cached); }, seconds(1));
    RecordProperty("equal_ms_" + std::to_string(i), static_cast<int>(took.count()));
  }

  const std::vector<Outcome> outcomes = Outcomes(cluster.router());
  ASSERT_EQ(outcomes.size(), static_cast<size_t>(kRequests));
  int equal = 0;
  int hits = 0;
  for (const Outcome& outcome : outcomes) {
    equal += outcome.expected == outcome.found ? 1 : 0;
    hits += outcome.found > 0 ? 1 : 0;
  }
  RecordProperty("equal", equal);
  RecordProperty("hits", hits);
  EXPECT_GE(equal, kRequests * 98 / 100);
  EXPECT_GE(hits, kRequests - 3 * kPrefixes) << "a prefix is computed by each worker once or not at all";
  const MetricsPage router = cluster.RouterMetrics();
  EXPECT_GT(router.Sum("qanat_router_predicted_hit_tokens_total"), 0);
  EXPECT_EQ(router.Sum("qanat_router_ttft_prediction_error_seconds_count"), kRequests);
  EXPECT_EQ(router.Sum("qanat_router_index_resyncs_total"), 0);
}

TEST(WatchIntegrationTest, AWorkerRestartedInPlaceIsNotCreditedWithWhatItHad) {
  Cluster cluster(1, {}, kAudited);
  const v1::GenerateRequest request = PromptOf(80, 1, 2);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(cluster.client().Generate(request).status.ok());
  Server& worker = cluster.worker(0);
  const std::string address = worker.address;
  const uint64_t epoch = cluster.StatusOf(0).epoch();
  worker.process->Signal(SIGKILL);
  worker = StartWorker({}, address);
  ASSERT_EQ(worker.address, address);
  const auto is_back = [&] {
    const v1::WorkerStatus status = cluster.StatusOf(0);
    return status.state() == v1::WORKER_STATE_READY && status.epoch() != epoch;
  };
  ASSERT_TRUE(Eventually(is_back, seconds(5)));
  const milliseconds took = TimeUntil([&] { return cluster.StatusOf(0).digest_ok(); }, seconds(1));
  RecordProperty("equal_ms", static_cast<int>(took.count()));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(cluster.client().Generate(request).status.ok());

  const std::vector<Outcome> outcomes = Outcomes(cluster.router());
  ASSERT_EQ(outcomes.size(), 4u);
  const int expected[] = {0, 64, 0, 64};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(outcomes[i].expected, expected[i]) << "request " << i;
    EXPECT_EQ(outcomes[i].found, expected[i]) << "request " << i;
  }
  EXPECT_EQ(cluster.RouterMetrics().Sum("qanat_router_index_resyncs_total", "cause=\"epoch\""), 1);
}

// A20: a load counter that goes wrong sends everything to one worker.
TEST(WatchIntegrationTest, CancelledCallsOfOnePrefixAreCountedAndShared) {
  constexpr int kRequests = 200;
  Cluster cluster(2, {}, kAudited);
  const auto running = [&](size_t worker) {
    const MetricsPage page = cluster.WorkerMetrics(worker);
    return page.Sum("qanat_worker_requests_running") + page.Sum("qanat_worker_requests_waiting");
  };
  RunOnThreads(8, kRequests, [&](int i) {
    std::mt19937 random(i);
    const v1::GenerateRequest request = PromptOf(48, 1, 10, 1000 + i, 16);
    if (random() % 2 == 0) {
      cluster.client().GenerateAndLeave(request, static_cast<int>(random() % 12));
    } else {
      EXPECT_TRUE(cluster.client().Generate(request).status.ok());
    }
  });
  double dispatches = 0;
  const MetricsPage router = cluster.RouterMetrics();
  for (size_t i = 0; i < cluster.size(); ++i) {
    dispatches += router.Sum("qanat_router_dispatches_total", cluster.worker(i).address);
  }
  EXPECT_GE(dispatches, kRequests / 2) << "those that stayed, and some of those that left at once";
  for (size_t i = 0; i < cluster.size(); ++i) {
    const auto is_idle = [&] { return cluster.StatusOf(i).in_flight() == 0 && running(i) == 0; };
    EXPECT_TRUE(Eventually(is_idle, seconds(1))) << "worker " << i;
    const double share = router.Sum("qanat_router_dispatches_total", cluster.worker(i).address) / dispatches;
    RecordProperty("share_percent_" + std::to_string(i), static_cast<int>(share * 100));
    EXPECT_LE(share, 0.6) << "worker " << i;
  }

  // Calls that stay: the router counts what the workers have.
  struct OpenCall {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;
  };
  std::vector<OpenCall> open(6);
  v1::GenerateResponse response;
  for (size_t i = 0; i < open.size(); ++i) {
    const v1::GenerateRequest request = PromptOf(48, 1, 10, 5000 + static_cast<int>(i), 2000);
    open[i].reader = cluster.client().stub().Generate(&open[i].context, request);
    ASSERT_TRUE(open[i].reader->Read(&response));
  }
  int in_flight = 0;
  for (size_t i = 0; i < cluster.size(); ++i) {
    const auto is_equal = [&] {
      const v1::WorkerStatus status = cluster.StatusOf(i);
      return status.in_flight() == running(i) && status.running() + status.waiting() == status.in_flight();
    };
    EXPECT_TRUE(Eventually(is_equal, seconds(5))) << "worker " << i;
    in_flight += cluster.StatusOf(i).in_flight();
  }
  EXPECT_EQ(in_flight, static_cast<int>(open.size()));
  for (OpenCall& call : open) {
    call.context.TryCancel();
    while (call.reader->Read(&response)) {
    }
    call.reader->Finish();
  }
}

TEST(WatchIntegrationTest, QanatClusterWatches) {
  Cluster cluster(1);
  ASSERT_TRUE(cluster.client().Generate(PromptOf(40, 1, 2)).status.ok());
  Process watch({Program("qanat"), "cluster", "--watch", "--interval", "10ms", "--json", "--target",
                 cluster.router().address},
                cluster.router().log);
  bool seen = false;
  for (int i = 0; i < 200 && !seen; ++i) {
    const std::string line = watch.AwaitLine("{", seconds(10));
    v1::GetClusterResponse response;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(line, &response).ok()) << line;
    ASSERT_EQ(response.workers_size(), 1);
    const v1::WorkerStatus& worker = response.workers(0);
    seen = worker.digest_ok() && worker.index_blocks() == 2 && worker.cached_blocks() == 2 &&
           worker.free_blocks() == worker.total_blocks() - 2 && worker.running() == 0;
  }
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace qanat::integration
