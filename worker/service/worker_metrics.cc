#include "worker/service/worker_metrics.h"

#include "common/base/error.h"
#include "worker/service/request_log.h"

namespace qanat::service {
namespace {

// Gauges of one scrape, from one picture of the engine.
void ReadEngine(const std::string& model, int block_size, const engine::EngineSnapshot& now,
                metrics::Scrape& scrape) {
  scrape.Set("qanat_worker_requests_running", {model}, now.running);
  scrape.Set("qanat_worker_streams_stalled", {model}, now.paused);
  scrape.Set("qanat_worker_requests_waiting", {model}, now.waiting);
  scrape.Set("qanat_worker_waiting_tokens", {model}, static_cast<double>(now.waiting_tokens));
  scrape.Set("qanat_worker_kv_blocks", {model, "free"}, now.free_blocks);
  scrape.Set("qanat_worker_kv_blocks", {model, "cached"}, now.cached_blocks);
  scrape.Set("qanat_worker_kv_blocks", {model, "referenced"}, now.referenced_blocks);
  const double slots = static_cast<double>(now.referenced_blocks) * block_size;
  scrape.Set("qanat_worker_kv_utilization_ratio", {model},
             slots > 0 ? static_cast<double>(now.live_tokens) / slots : 0);
  scrape.Set("qanat_worker_kv_usage_ratio", {model},
             now.total_blocks > 0 ? static_cast<double>(now.referenced_blocks) / now.total_blocks : 0);
}

}  // namespace

WorkerMetrics::WorkerMetrics(metrics::Exporter& e, const std::string& model)
    : steps_(e.GetCounter("qanat_worker_steps_total", {model})),
      prefill_tokens_(e.GetCounter("qanat_worker_computed_tokens_total", {model, "prefill"})),
      decode_tokens_(e.GetCounter("qanat_worker_computed_tokens_total", {model, "decode"})),
      recomputed_tokens_(e.GetCounter("qanat_worker_recomputed_tokens_total", {model})),
      preemptions_(e.GetCounter("qanat_worker_preemptions_total", {model})),
      evictions_(e.GetCounter("qanat_worker_prefix_cache_evictions_total", {model})),
      queried_tokens_(e.GetCounter("qanat_worker_prefix_cache_queries_tokens_total", {model})),
      hit_tokens_(e.GetCounter("qanat_worker_prefix_cache_hits_tokens_total", {model})),
      accepted_drafts_(e.GetCounter("qanat_worker_draft_tokens_total", {model, "accepted"})),
      rejected_drafts_(e.GetCounter("qanat_worker_draft_tokens_total", {model, "rejected"})),
      failed_rows_(e.GetCounter("qanat_worker_nonfinite_rows_total", {model})),
      prompt_tokens_(e.GetCounter("qanat_worker_prompt_tokens_total", {model})),
      generated_tokens_(e.GetCounter("qanat_worker_generated_tokens_total", {model})),
      watchdog_trips_(e.GetCounter("qanat_worker_watchdog_trips_total", {model})),
      plan_(e.GetHistogram("qanat_worker_step_duration_seconds", {model, "plan"})),
      launch_(e.GetHistogram("qanat_worker_step_duration_seconds", {model, "launch"})),
      device_(e.GetHistogram("qanat_worker_step_duration_seconds", {model, "device"})),
      commit_(e.GetHistogram("qanat_worker_step_duration_seconds", {model, "commit"})),
      batch_sequences_(e.GetHistogram("qanat_worker_batch_sequences", {model})),
      batch_tokens_(e.GetHistogram("qanat_worker_batch_tokens", {model})),
      queue_(e.GetHistogram("qanat_worker_queue_duration_seconds", {model})),
      prefill_(e.GetHistogram("qanat_worker_prefill_duration_seconds", {model})),
      decode_(e.GetHistogram("qanat_worker_decode_duration_seconds", {model})),
      duration_(e.GetHistogram("qanat_worker_request_duration_seconds", {model})),
      first_token_(e.GetHistogram("qanat_worker_time_to_first_token_seconds", {model})),
      inter_token_(e.GetHistogram("qanat_worker_inter_token_duration_seconds", {model})),
      request_prompt_tokens_(e.GetHistogram("qanat_worker_request_prompt_tokens", {model})),
      request_generated_tokens_(e.GetHistogram("qanat_worker_request_generated_tokens", {model})) {
  for (const char* reason : {"stop", "length", "cancelled", "deadline", "error"}) {
    ends_.emplace(reason, e.GetCounter("qanat_worker_requests_total", {model, reason}));
  }
  // No worker says COLD yet; the series is the contract's.
  for (const char* reason : {"queue_full", "tokens_full", "never_fits", "deadline", "invalid", "draining",
                             "redirect_full", "redirect_cold"}) {
    refusals_.emplace(reason, e.GetCounter("qanat_worker_refusals_total", {model, reason}));
  }
}

void WorkerMetrics::OnStep(const engine::StepStats& stats) {
  steps_.Add();
  prefill_tokens_.Add(stats.prefill_tokens);
  decode_tokens_.Add(stats.decode_tokens);
  recomputed_tokens_.Add(stats.recomputed_tokens);
  preemptions_.Add(stats.preemptions);
  evictions_.Add(stats.evictions);
  queried_tokens_.Add(stats.queried_tokens);
  hit_tokens_.Add(stats.hit_tokens);
  accepted_drafts_.Add(stats.accepted_drafts);
  rejected_drafts_.Add(stats.rejected_drafts);
  failed_rows_.Add(stats.failed_rows);
  plan_.Observe(Seconds(stats.plan));
  launch_.Observe(Seconds(stats.launch));
  device_.Observe(Seconds(stats.device));
  commit_.Observe(Seconds(stats.commit));
  batch_sequences_.Observe(stats.sequences);
  batch_tokens_.Observe(stats.prefill_tokens + stats.decode_tokens);
  storm_.OnStep(stats);
}

void WorkerMetrics::OnInterToken(Duration gap) { inter_token_.Observe(Seconds(gap)); }

void WorkerMetrics::OnAccepted(int32_t prompt_tokens) {
  prompt_tokens_.Add(prompt_tokens);
  request_prompt_tokens_.Observe(prompt_tokens);
}

void WorkerMetrics::OnRefused(const absl::Status& status, cluster::v1::Redirect redirect) {
  const bool full = redirect == cluster::v1::REDIRECT_FULL;
  const auto it = refusals_.find(full ? "redirect_full" : RefusalLabel(status));
  if (it != refusals_.end()) it->second.Add();
}

void WorkerMetrics::OnFirstToken(Duration since_arrival) { first_token_.Observe(Seconds(since_arrival)); }

void WorkerMetrics::OnDelivered(int32_t tokens) { generated_tokens_.Add(tokens); }

void WorkerMetrics::OnEnded(const engine::Outcome& outcome, Duration total) {
  ends_.find(NameOf(outcome.reason))->second.Add();
  // Whoever ended before has no such part.
  if (outcome.queue.has_value()) queue_.Observe(Seconds(*outcome.queue));
  if (outcome.completion_tokens > 0) {
    prefill_.Observe(Seconds(outcome.prefill));
    decode_.Observe(Seconds(outcome.decode));
  }
  duration_.Observe(Seconds(total));
  request_generated_tokens_.Observe(outcome.completion_tokens);
}

void WorkerMetrics::OnWatchdogTrip() { watchdog_trips_.Add(); }

std::string_view RefusalLabel(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  if (reason == "NEVER_FITS") return "never_fits";
  if (reason == "TOKENS_FULL") return "tokens_full";
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
      return "";
    case absl::StatusCode::kResourceExhausted:
      return "queue_full";
    case absl::StatusCode::kDeadlineExceeded:
      return "deadline";
    case absl::StatusCode::kUnavailable:
      return "draining";
    default:
      return "invalid";
  }
}

void ExportEngine(metrics::Exporter& exporter, const engine::Engine& engine, const api::WorkerInfo& info,
                  std::string_view device, std::string_view kv_dtype) {
  exporter
      .GetGauge("qanat_worker_info",
                {info.model.id, info.version, std::string(device), std::to_string(info.model.block_size),
                 std::string(kv_dtype), info.numerics_id})
      .Set(1);
  exporter.AddSource(
      [&engine, model = info.model.id, block_size = info.model.block_size](metrics::Scrape& scrape) {
        ReadEngine(model, block_size, engine.Snapshot(), scrape);
      });
}

void ExportWatch(metrics::Exporter& exporter, const StatePublisher& publisher) {
  exporter.AddSource([&publisher](metrics::Scrape& scrape) {
    scrape.Set("qanat_worker_watch_subscribers", {}, publisher.num_subscribers());
    scrape.Set("qanat_worker_watch_snapshots_total", {}, static_cast<double>(publisher.num_snapshots()));
  });
}

}  // namespace qanat::service
