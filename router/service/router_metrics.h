// The router's entries of the metrics catalogue.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/api/generate.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/metrics/exporter.h"
#include "router/cluster/cluster.h"
#include "router/forward/forward_metrics.h"

namespace qanat::router {

// What: counts what the router does. Owns no metric: the exporter outlives it. Threads: any. No errors.
class RouterMetrics final : public ForwardMetrics {
 public:
  // The series of one model's callers.
  struct ModelSeries {
    metrics::Histogram time_to_first_token;
    metrics::Histogram inter_token;
    metrics::Histogram request_duration;
  };
  // The series of one worker.
  struct WorkerSeries {
    metrics::Counter dispatches;
    metrics::Counter expected_hit_tokens;
    metrics::Counter hit_tokens;
  };
  // The series of one priority: requests that were let in and have no worker yet.
  struct QueueSeries {
    metrics::Gauge requests;
    metrics::Gauge tokens;
    metrics::Histogram duration;
  };

  RouterMetrics(metrics::Exporter& exporter, std::string_view policy);

  // Shows each worker's state and calls, and the index, at every scrape. `cluster` outlives the exporter's
  // endpoint.
  void Watch(const Cluster& cluster);
  // Shows the worker's series from now on.
  void AddWorker(const std::string& address) { OfWorker(address); }

  ModelSeries OfModel(const std::string& model) EXCLUDES(mu_);
  QueueSeries OfQueue(api::Priority priority) const { return queues_[static_cast<size_t>(priority)]; }

  void OnDecision(std::string_view outcome, Duration took) override EXCLUDES(mu_);
  void OnDispatch(const std::string& worker) override EXCLUDES(mu_);
  void OnRedirect(std::string_view reason) override;
  void OnFirstToken(Duration late) override { ttft_error_.Observe(Seconds(late)); }
  void OnRelayed(int32_t tokens) override;
  void OnHits(const std::string& worker, const PromptHits& hits) override EXCLUDES(mu_);
  void OnRelayCpu(Duration cpu) { relay_cpu_.Add(Seconds(cpu)); }

  // The end of a call of `model`; empty: it named none that is served. `answered`: a response was sent
  // before.
  void OnRequestEnd(const std::string& model, const absl::Status& status, bool answered) EXCLUDES(mu_);

 private:
  WorkerSeries OfWorker(const std::string& address) EXCLUDES(mu_);

  metrics::Exporter& exporter_;
  const std::string policy_;
  metrics::Histogram decision_duration_;
  metrics::Counter relayed_messages_;
  metrics::Counter relayed_tokens_;
  metrics::Counter prompt_tokens_;
  metrics::Histogram ttft_error_;
  metrics::Counter relay_cpu_;
  std::vector<QueueSeries> queues_;                                 // by api::Priority
  std::map<std::string, metrics::Counter, std::less<>> outcomes_;   // constant after construction
  std::map<std::string, metrics::Counter, std::less<>> refusals_;   // constant after construction
  std::map<std::string, metrics::Counter, std::less<>> redirects_;  // constant after construction

  Mutex mu_;
  std::map<std::string, ModelSeries> models_ GUARDED_BY(mu_);
  std::map<std::string, WorkerSeries> workers_ GUARDED_BY(mu_);
};

}  // namespace qanat::router
