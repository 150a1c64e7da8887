#include "router/service/router_metrics.h"

#include "absl/strings/ascii.h"
#include "common/base/error.h"

namespace qanat::router {
namespace {

constexpr const char* kClasses[] = {"interactive", "standard", "batch"};  // by api::Priority
constexpr const char* kOutcomes[] = {"route", "wait", "reject"};
constexpr const char* kRedirects[] = {"full", "draining"};
constexpr const char* kRefusals[] = {"queue_full", "tokens_full", "bytes_full", "deadline",
                                     "no_worker",  "invalid",     "never_fits"};

// The value of the label `reason` for a call that ended so before any answer; empty: it was not refused.
std::string RefusalOf(const absl::Status& status) {
  const std::string reason = absl::AsciiStrToLower(ReasonOf(status));
  for (const char* known : kRefusals) {
    if (reason == known) return reason;
  }
  if (absl::IsDeadlineExceeded(status)) return "deadline";
  if (absl::IsInvalidArgument(status) || absl::IsNotFound(status) || absl::IsUnimplemented(status) ||
      absl::IsFailedPrecondition(status)) {
    return "invalid";
  }
  return "";
}

void ShowIndex(const Cluster& cluster, metrics::Scrape& scrape) {
  const IndexStats stats = cluster.index().Stats();
  scrape.Set("qanat_router_index_blocks", {}, static_cast<double>(stats.distinct_blocks));
  scrape.Set("qanat_router_index_bytes", {}, static_cast<double>(stats.bytes));
  scrape.Set("qanat_router_index_updates_total", {"stored"}, static_cast<double>(stats.stored));
  scrape.Set("qanat_router_index_updates_total", {"removed"}, static_cast<double>(stats.removed));
  for (const ResyncCause cause : kResyncCauses) {
    scrape.Set("qanat_router_index_resyncs_total", {std::string(CauseName(cause))},
               static_cast<double>(cluster.Resyncs(cause)));
  }
}

}  // namespace

RouterMetrics::RouterMetrics(metrics::Exporter& exporter, std::string_view policy)
    : exporter_(exporter),
      policy_(policy),
      decision_duration_(exporter.GetHistogram("qanat_router_decision_duration_seconds", {policy_})),
      relayed_messages_(exporter.GetCounter("qanat_router_relayed_messages_total")),
      relayed_tokens_(exporter.GetCounter("qanat_router_relayed_tokens_total")),
      prompt_tokens_(exporter.GetCounter("qanat_router_prompt_tokens_total")),
      ttft_error_(exporter.GetHistogram("qanat_router_ttft_prediction_error_seconds")),
      relay_cpu_(exporter.GetCounter("qanat_router_relay_cpu_seconds_total")) {
  for (const char* name : kClasses) {
    queues_.push_back({exporter.GetGauge("qanat_router_queue_requests", {name}),
                       exporter.GetGauge("qanat_router_queue_tokens", {name}),
                       exporter.GetHistogram("qanat_router_queue_duration_seconds", {name})});
  }
  for (const char* outcome : kOutcomes) {
    outcomes_.emplace(outcome, exporter.GetCounter("qanat_router_decisions_total", {policy_, outcome}));
  }
  for (const char* reason : kRefusals) {
    refusals_.emplace(reason, exporter.GetCounter("qanat_router_refusals_total", {reason}));
  }
  for (const char* reason : kRedirects) {
    redirects_.emplace(reason, exporter.GetCounter("qanat_router_redirects_total", {reason}));
  }
}

void RouterMetrics::Watch(const Cluster& cluster) {
  exporter_.AddSource([&cluster](metrics::Scrape& scrape) { ShowIndex(cluster, scrape); });
  exporter_.AddSource([&cluster](metrics::Scrape& scrape) {
    const ClusterSnapshot snapshot = cluster.Snapshot();
    for (size_t i = 0; i < snapshot.size(); ++i) {
      const Worker& worker = (*snapshot.workers)[i];
      scrape.Set("qanat_router_in_flight", {worker.address}, snapshot.loads[i].in_flight);
      for (const WorkerState state : kWorkerStates) {
        scrape.Set("qanat_router_worker_state", {worker.address, std::string(StateName(state))},
                   worker.state == state ? 1 : 0);
      }
    }
  });
}

RouterMetrics::ModelSeries RouterMetrics::OfModel(const std::string& model) {
  MutexLock lock(mu_);
  const auto found = models_.find(model);
  if (found != models_.end()) return found->second;
  exporter_.GetCounter("qanat_router_requests_total", {model, "OK"});  // shows before the first end
  return models_
      .emplace(model,
               ModelSeries{exporter_.GetHistogram("qanat_router_time_to_first_token_seconds", {model}),
                           exporter_.GetHistogram("qanat_router_inter_token_duration_seconds", {model}),
                           exporter_.GetHistogram("qanat_router_request_duration_seconds", {model})})
      .first->second;
}

RouterMetrics::WorkerSeries RouterMetrics::OfWorker(const std::string& address) {
  MutexLock lock(mu_);
  const auto found = workers_.find(address);
  if (found != workers_.end()) return found->second;
  return workers_
      .emplace(address,
               WorkerSeries{exporter_.GetCounter("qanat_router_dispatches_total", {address}),
                            exporter_.GetCounter("qanat_router_predicted_hit_tokens_total", {address}),
                            exporter_.GetCounter("qanat_router_actual_hit_tokens_total", {address})})
      .first->second;
}

void RouterMetrics::OnDecision(std::string_view outcome, Duration took) {
  decision_duration_.Observe(Seconds(took));
  if (const auto found = outcomes_.find(outcome); found != outcomes_.end()) found->second.Add();
}

void RouterMetrics::OnDispatch(const std::string& worker) { OfWorker(worker).dispatches.Add(); }

void RouterMetrics::OnRedirect(std::string_view reason) {
  if (const auto found = redirects_.find(reason); found != redirects_.end()) found->second.Add();
}

void RouterMetrics::OnRelayed(int32_t tokens) {
  relayed_messages_.Add();
  relayed_tokens_.Add(tokens);
}

void RouterMetrics::OnHits(const std::string& worker, const PromptHits& hits) {
  WorkerSeries series = OfWorker(worker);
  series.expected_hit_tokens.Add(hits.expected);
  series.hit_tokens.Add(hits.found);
  prompt_tokens_.Add(hits.prompt);
}

void RouterMetrics::OnRequestEnd(const std::string& model, const absl::Status& status, bool answered) {
  exporter_.GetCounter("qanat_router_requests_total", {model, absl::StatusCodeToString(status.code())}).Add();
  if (answered || status.ok()) return;
  if (const auto found = refusals_.find(RefusalOf(status)); found != refusals_.end()) found->second.Add();
}

}  // namespace qanat::router
