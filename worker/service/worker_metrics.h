// The worker's part of the metrics catalogue.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/api/worker_info.h"
#include "common/base/clock.h"
#include "common/metrics/exporter.h"
#include "qanat/cluster/v1/worker.pb.h"
#include "worker/engine/engine.h"
#include "worker/engine/engine_metrics.h"
#include "worker/engine/request.h"
#include "worker/service/preemption_storm.h"
#include "worker/service/watch/state_publisher.h"

namespace qanat::service {

// What: counts what the engine and the service tell, and passes steps to the log's storms. All series exist,
// at 0, from the start. An end is counted once, by the service, which alone knows where a stop string ended
// an answer. `exporter` outlives it. Threads: any; nothing blocks. Errors: none.
class WorkerMetrics final : public engine::EngineMetrics {
 public:
  WorkerMetrics(metrics::Exporter& exporter, const std::string& model);

  // The engine's side.
  void OnStep(const engine::StepStats& stats) override;
  void OnInterToken(Duration gap) override;

  // The service's side.
  void OnAccepted(int32_t prompt_tokens);
  // `redirect`: what a router was told, if it was one that asked.
  void OnRefused(const absl::Status& status, cluster::v1::Redirect redirect);
  void OnFirstToken(Duration since_arrival);
  void OnDelivered(int32_t tokens);
  void OnEnded(const engine::Outcome& outcome, Duration total);
  void OnWatchdogTrip();

 private:
  metrics::Counter steps_, prefill_tokens_, decode_tokens_, recomputed_tokens_, preemptions_, evictions_,
      queried_tokens_, hit_tokens_, accepted_drafts_, rejected_drafts_, failed_rows_, prompt_tokens_,
      generated_tokens_, watchdog_trips_;
  metrics::Histogram plan_, launch_, device_, commit_, batch_sequences_, batch_tokens_, queue_, prefill_,
      decode_, duration_, first_token_, inter_token_, request_prompt_tokens_, request_generated_tokens_;
  std::map<std::string, metrics::Counter, std::less<>> ends_;      // by finish reason
  std::map<std::string, metrics::Counter, std::less<>> refusals_;  // by reason
  PreemptionStorm storm_;                                          // the engine thread's
};

// The label under which a refusal of ours counts: "queue_full", "tokens_full", "never_fits", "deadline",
// "draining" or "invalid". Empty for what is no refusal: the caller left.
std::string_view RefusalLabel(const absl::Status& status);

// Adds what is read at each scrape (running, waiting, blocks) and the worker's facts. `engine` outlives the
// exporter.
void ExportEngine(metrics::Exporter& exporter, const engine::Engine& engine, const api::WorkerInfo& info,
                  std::string_view device, std::string_view kv_dtype);

// Adds what is read of Watch at each scrape. `publisher` outlives the exporter.
void ExportWatch(metrics::Exporter& exporter, const StatePublisher& publisher);

}  // namespace qanat::service
