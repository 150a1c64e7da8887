#include "worker/service/worker_metrics.h"

#include <chrono>
#include <string>

#include "common/base/error.h"
#include "common/metrics/catalogue.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_model_runner.h"

namespace qanat::service {
namespace {

// Without printing a whole scrape when it fails.
bool Has(const std::string& scrape, const std::string& part) {
  return scrape.find(part) != std::string::npos;
}

TEST(WorkerMetricsTest, EveryWorkerMetricOfTheCatalogueShowsBeforeTraffic) {
  metrics::Exporter exporter;
  WorkerMetrics worker(exporter, "m");
  engine::EngineOptions options;
  options.context_length = 64;
  options.num_blocks = 8;
  fakes::FakeModelRunner runner(8, 16);
  fakes::FakeClock clock;
  engine::Engine engine(options, hash::BlockHasher(hash::kPublicKey, "f", 16), runner, clock, worker);
  api::WorkerInfo info;
  info.model.id = "m";
  info.model.block_size = 16;
  ExportEngine(exporter, engine, info, "cpu", "bf16");
  const StatePublisher publisher(1, {}, clock, [] { return api::Load{}; });
  ExportWatch(exporter, publisher);
  const std::string text = exporter.Text();
  for (const metrics::Metric& metric : metrics::Catalogue()) {
    if (metric.name.substr(0, 13) != "qanat_worker_") continue;
    EXPECT_TRUE(Has(text, "# TYPE " + std::string(metric.name) + " ")) << metric.name;
  }
  EXPECT_TRUE(Has(text, "qanat_worker_kv_blocks{model=\"m\",state=\"free\"} 8\n"));
  EXPECT_TRUE(Has(text, "qanat_worker_kv_utilization_ratio{model=\"m\"} 0\n"));
  EXPECT_TRUE(Has(text, "qanat_worker_refusals_total{model=\"m\",reason=\"redirect_cold\"} 0\n"));
  EXPECT_FALSE(Has(text, " nan\n") || Has(text, " NaN\n") || Has(text, " Nan\n"));
}

TEST(WorkerMetricsTest, CountsAStepByItsParts) {
  metrics::Exporter exporter;
  WorkerMetrics worker(exporter, "m");
  engine::StepStats stats;
  stats.sequences = 3;
  stats.prefill_tokens = 40;
  stats.decode_tokens = 2;
  stats.preemptions = 1;
  stats.recomputed_tokens = 5;
  stats.evictions = 6;
  stats.queried_tokens = 48;
  stats.hit_tokens = 16;
  stats.failed_rows = 1;
  stats.device = std::chrono::milliseconds(4);
  worker.OnStep(stats);
  const std::string text = exporter.Text();
  for (const char* line : {"qanat_worker_steps_total{model=\"m\"} 1\n",
                           "qanat_worker_computed_tokens_total{model=\"m\",phase=\"prefill\"} 40\n",
                           "qanat_worker_computed_tokens_total{model=\"m\",phase=\"decode\"} 2\n",
                           "qanat_worker_preemptions_total{model=\"m\"} 1\n",
                           "qanat_worker_recomputed_tokens_total{model=\"m\"} 5\n",
                           "qanat_worker_prefix_cache_evictions_total{model=\"m\"} 6\n",
                           "qanat_worker_prefix_cache_queries_tokens_total{model=\"m\"} 48\n",
                           "qanat_worker_prefix_cache_hits_tokens_total{model=\"m\"} 16\n",
                           "qanat_worker_nonfinite_rows_total{model=\"m\"} 1\n",
                           "qanat_worker_batch_sequences_sum{model=\"m\"} 3\n",
                           "qanat_worker_batch_tokens_sum{model=\"m\"} 42\n",
                           "qanat_worker_step_duration_seconds_sum{model=\"m\",part=\"device\"} 0.004\n"}) {
    EXPECT_TRUE(Has(text, line)) << line;
  }
}

TEST(WorkerMetricsTest, WhoWasNeverScheduledWaitedForNothing) {
  metrics::Exporter exporter;
  WorkerMetrics worker(exporter, "m");
  engine::Outcome outcome;
  outcome.reason = engine::EndReason::kDeadline;
  worker.OnEnded(outcome, std::chrono::seconds(30));
  EXPECT_TRUE(Has(exporter.Text(), "qanat_worker_queue_duration_seconds_count{model=\"m\"} 0\n"));
  outcome.queue = std::chrono::seconds(1);
  worker.OnEnded(outcome, std::chrono::seconds(30));
  EXPECT_TRUE(Has(exporter.Text(), "qanat_worker_queue_duration_seconds_sum{model=\"m\"} 1\n"));
}

TEST(WorkerMetricsTest, RefusalsCountUnderTheContractsReasons) {
  EXPECT_EQ(RefusalLabel(WithReason(absl::ResourceExhaustedError(""), "QUEUE_FULL")), "queue_full");
  EXPECT_EQ(RefusalLabel(WithReason(absl::ResourceExhaustedError(""), "TOKENS_FULL")), "tokens_full");
  EXPECT_EQ(RefusalLabel(WithReason(absl::InvalidArgumentError(""), "NEVER_FITS")), "never_fits");
  EXPECT_EQ(RefusalLabel(absl::DeadlineExceededError("")), "deadline");
  EXPECT_EQ(RefusalLabel(WithReason(absl::UnavailableError(""), "DRAINING")), "draining");
  EXPECT_EQ(RefusalLabel(InvalidField("x", "y")), "invalid");
  EXPECT_EQ(RefusalLabel(UnhonouredField("x")), "invalid");
  EXPECT_EQ(RefusalLabel(absl::NotFoundError("")), "invalid");
  EXPECT_EQ(RefusalLabel(absl::CancelledError("")), "");
}

}  // namespace
}  // namespace qanat::service
