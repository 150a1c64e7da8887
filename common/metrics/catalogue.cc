#include "common/metrics/catalogue.h"

#include <algorithm>

#include "absl/strings/str_split.h"
#include "common/base/check.h"

namespace qanat::metrics {
namespace {

constexpr Metric kCatalogue[] = {
    {"qanat_worker_requests_running", Type::kGauge, "model", Buckets::kNone, "Sequences in the running set"},
    {"qanat_worker_streams_stalled", Type::kGauge, "model", Buckets::kNone,
     "Sequences paused by slow readers"},
    {"qanat_worker_requests_waiting", Type::kGauge, "model", Buckets::kNone, "Requests in the waiting queue"},
    {"qanat_worker_waiting_tokens", Type::kGauge, "model", Buckets::kNone,
     "Uncached prompt tokens in the waiting queue"},
    {"qanat_worker_kv_blocks", Type::kGauge, "model,state", Buckets::kNone,
     "KV blocks by state: free, cached, referenced"},
    {"qanat_worker_kv_utilization_ratio", Type::kGauge, "model", Buckets::kNone,
     "Live token slots / slots of referenced blocks"},
    {"qanat_worker_kv_usage_ratio", Type::kGauge, "model", Buckets::kNone, "Referenced blocks / all blocks"},
    {"qanat_worker_prefix_cache_queries_tokens_total", Type::kCounter, "model", Buckets::kNone,
     "Prompt tokens looked up in the prefix cache"},
    {"qanat_worker_prefix_cache_hits_tokens_total", Type::kCounter, "model", Buckets::kNone,
     "Prompt tokens found in the prefix cache"},
    {"qanat_worker_prefix_cache_evictions_total", Type::kCounter, "model", Buckets::kNone,
     "Cached blocks evicted"},
    {"qanat_worker_preemptions_total", Type::kCounter, "model", Buckets::kNone, "Sequences preempted"},
    {"qanat_worker_recomputed_tokens_total", Type::kCounter, "model", Buckets::kNone,
     "Tokens computed again after preemption"},
    {"qanat_worker_prompt_tokens_total", Type::kCounter, "model", Buckets::kNone,
     "Prompt tokens of accepted requests"},
    {"qanat_worker_computed_tokens_total", Type::kCounter, "model,phase", Buckets::kNone,
     "Tokens computed: prefill, decode"},
    {"qanat_worker_generated_tokens_total", Type::kCounter, "model", Buckets::kNone, "Tokens delivered"},
    {"qanat_worker_requests_total", Type::kCounter, "model,finish_reason", Buckets::kNone,
     "Accepted requests by end: stop, length, cancelled, deadline, error"},
    {"qanat_worker_refusals_total", Type::kCounter, "model,reason", Buckets::kNone,
     "Requests refused: queue_full, tokens_full, never_fits, deadline, invalid, draining, redirect_full, "
     "redirect_cold"},
    {"qanat_worker_steps_total", Type::kCounter, "model", Buckets::kNone, "Engine steps"},
    {"qanat_worker_step_duration_seconds", Type::kHistogram, "model,part", Buckets::kStep,
     "Engine step by part: plan, launch, device, commit"},
    {"qanat_worker_batch_sequences", Type::kHistogram, "model", Buckets::kCount, "Sequences per step"},
    {"qanat_worker_batch_tokens", Type::kHistogram, "model", Buckets::kCount, "Tokens per step"},
    {"qanat_worker_queue_duration_seconds", Type::kHistogram, "model", Buckets::kLatency,
     "Accepted to first scheduled"},
    {"qanat_worker_prefill_duration_seconds", Type::kHistogram, "model", Buckets::kLatency,
     "First scheduled to first token"},
    {"qanat_worker_decode_duration_seconds", Type::kHistogram, "model", Buckets::kLatency,
     "First to last token"},
    {"qanat_worker_request_duration_seconds", Type::kHistogram, "model", Buckets::kLatency,
     "Accepted to end"},
    {"qanat_worker_time_to_first_token_seconds", Type::kHistogram, "model", Buckets::kLatency,
     "Accepted to first token delivered"},
    {"qanat_worker_inter_token_duration_seconds", Type::kHistogram, "model", Buckets::kToken,
     "Gap between tokens of a sequence"},
    {"qanat_worker_request_prompt_tokens", Type::kHistogram, "model", Buckets::kCount, "Prompt length"},
    {"qanat_worker_request_generated_tokens", Type::kHistogram, "model", Buckets::kCount, "Output length"},
    {"qanat_worker_draft_tokens_total", Type::kCounter, "model,outcome", Buckets::kNone,
     "Draft tokens: accepted, rejected"},
    {"qanat_worker_nonfinite_rows_total", Type::kCounter, "model", Buckets::kNone,
     "Rows with NaN or infinity, failed alone"},
    {"qanat_worker_watchdog_trips_total", Type::kCounter, "model", Buckets::kNone,
     "Steps that took longer than the watchdog allows"},
    {"qanat_worker_watch_subscribers", Type::kGauge, "", Buckets::kNone, "Routers watching"},
    {"qanat_worker_watch_snapshots_total", Type::kCounter, "", Buckets::kNone, "Snapshots sent"},
    {"qanat_worker_info", Type::kGauge, "model,version,device,block_size,kv_dtype,numerics", Buckets::kNone,
     "Always 1"},
    {"qanat_router_requests_total", Type::kCounter, "model,code", Buckets::kNone, "Calls by gRPC code"},
    {"qanat_router_decision_duration_seconds", Type::kHistogram, "policy", Buckets::kDecision,
     "Hashing, lookup and choice"},
    {"qanat_router_decisions_total", Type::kCounter, "policy,outcome", Buckets::kNone, "route, wait, reject"},
    {"qanat_router_dispatches_total", Type::kCounter, "worker", Buckets::kNone, "Calls sent to a worker"},
    {"qanat_router_in_flight", Type::kGauge, "worker", Buckets::kNone, "Open calls to a worker"},
    {"qanat_router_worker_state", Type::kGauge, "worker,state", Buckets::kNone, "1 for the present state"},
    {"qanat_router_predicted_hit_tokens_total", Type::kCounter, "worker", Buckets::kNone,
     "Prefix tokens expected by the decision"},
    {"qanat_router_actual_hit_tokens_total", Type::kCounter, "worker", Buckets::kNone,
     "Prefix tokens the worker reported"},
    {"qanat_router_prompt_tokens_total", Type::kCounter, "", Buckets::kNone, "Prompt tokens routed"},
    {"qanat_router_ttft_prediction_error_seconds", Type::kHistogram, "", Buckets::kError,
     "Actual minus predicted time to first token"},
    {"qanat_router_index_blocks", Type::kGauge, "", Buckets::kNone, "Distinct blocks in the index"},
    {"qanat_router_index_bytes", Type::kGauge, "", Buckets::kNone, "Memory of the index"},
    {"qanat_router_index_updates_total", Type::kCounter, "kind", Buckets::kNone, "stored, removed"},
    {"qanat_router_index_resyncs_total", Type::kCounter, "cause", Buckets::kNone,
     "epoch, sequence, digest, ring, reconnect"},
    {"qanat_router_queue_requests", Type::kGauge, "class", Buckets::kNone, "Requests waiting at the router"},
    {"qanat_router_queue_tokens", Type::kGauge, "class", Buckets::kNone,
     "Uncached prompt tokens waiting at the router"},
    {"qanat_router_queue_duration_seconds", Type::kHistogram, "class", Buckets::kLatency,
     "Time in the router's queue"},
    {"qanat_router_redirects_total", Type::kCounter, "reason", Buckets::kNone, "full, cold, draining"},
    {"qanat_router_refusals_total", Type::kCounter, "reason", Buckets::kNone,
     "queue_full, tokens_full, bytes_full, tenant_limit, deadline, no_worker, invalid, unauthenticated, "
     "never_fits"},
    {"qanat_router_time_to_first_token_seconds", Type::kHistogram, "model", Buckets::kLatency,
     "Call received to first token sent"},
    {"qanat_router_inter_token_duration_seconds", Type::kHistogram, "model", Buckets::kToken,
     "Gap between tokens sent"},
    {"qanat_router_request_duration_seconds", Type::kHistogram, "model", Buckets::kLatency,
     "Call received to status sent"},
    {"qanat_router_relayed_messages_total", Type::kCounter, "", Buckets::kNone, "Messages relayed"},
    {"qanat_router_relayed_tokens_total", Type::kCounter, "", Buckets::kNone, "Tokens relayed"},
    {"qanat_router_relay_cpu_seconds_total", Type::kCounter, "", Buckets::kNone, "CPU time spent relaying"},
    {"qanat_build_info", Type::kGauge, "component,version,revision,compiler", Buckets::kNone, "Always 1"},
    {"process_cpu_seconds_total", Type::kCounter, "", Buckets::kNone, "CPU time used, user and system"},
    {"process_resident_memory_bytes", Type::kGauge, "", Buckets::kNone, "Memory in RAM"},
    {"process_open_fds", Type::kGauge, "", Buckets::kNone, "Open file descriptors"},
    {"process_start_time_seconds", Type::kGauge, "", Buckets::kNone, "Start of the process since the epoch"},
};

// first, first * factor, ... below `end`, then `end`.
std::vector<double> Series(double first, double factor, double end) {
  std::vector<double> bounds;
  for (double bound = first; bound < end; bound *= factor) bounds.push_back(bound);
  bounds.push_back(end);
  return bounds;
}

std::vector<double> Mirrored(const std::vector<double>& positive) {
  std::vector<double> bounds;
  for (auto it = positive.rbegin(); it != positive.rend(); ++it) bounds.push_back(-*it);
  bounds.push_back(0);
  bounds.insert(bounds.end(), positive.begin(), positive.end());
  return bounds;
}

}  // namespace

absl::Span<const Metric> Catalogue() { return kCatalogue; }

const Metric& Find(std::string_view name) {
  const auto* it = std::find_if(std::begin(kCatalogue), std::end(kCatalogue),
                                [&](const Metric& metric) { return metric.name == name; });
  QANAT_CHECK(it != std::end(kCatalogue)) << "metric " << name << " is not in the catalogue";
  return *it;
}

std::vector<std::string> LabelNames(const Metric& metric) {
  return absl::StrSplit(absl::string_view(metric.labels.data(), metric.labels.size()), ',',
                        absl::SkipEmpty());
}

std::vector<double> UpperBounds(Buckets buckets) {
  switch (buckets) {
    case Buckets::kNone:
      return {};
    case Buckets::kLatency:
      return Series(0.001, 2, 2560);
    case Buckets::kToken:
      return Series(0.0005, 2, 80);
    case Buckets::kStep:
    case Buckets::kDecision:
      return Series(1e-6, 4, 16);
    case Buckets::kCount:
      return Series(1, 2, 131072);
    case Buckets::kError:
      return Mirrored(Series(0.001, 4, 262));
  }
  return {};
}

}  // namespace qanat::metrics
