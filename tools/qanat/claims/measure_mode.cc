#include "tools/qanat/claims/measure_mode.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/units.h"

namespace qanat::tools::claims {
namespace {

// Sums over the steps of a run, weighted by their time.
class Watch {
 public:
  Watch(const Scenario& scenario, const Mode& mode, const Bed& bed)
      : seats_(scenario.sizes.seats),
        drains_(mode.batching == engine::Batching::kContinuous && scenario.workload.concurrency == 0),
        clock_(bed.clock) {}

  void OnStep(const engine::Engine& engine, const engine::StepStats& stats) {
    const engine::EngineSnapshot now = engine.Snapshot();
    const double took = Seconds(stats.took);
    if (stats.prefill_tokens == 0) {
      timings.step_seconds[stats.decode_tokens].push_back(took);
    } else {
      timings.mixed.push_back({took, stats.decode_tokens, stats.prefill_tokens});
    }
    if (drained_.has_value()) return;
    busy_ += took * stats.sequences;
    live_ += took * static_cast<double>(now.live_tokens);
    reserved_ += took * now.referenced_blocks * kBlockSize;
    table_ += took * now.table_blocks;
    referenced_ += took * now.referenced_blocks;
    seconds_ += took;
    if (drains_ && now.waiting == 0) drained_ = clock_.Now();
  }

  // When the last one that waited was admitted, where nothing counts after it.
  std::optional<Time> drained() const { return drained_; }
  void FillIn(Figures& figures) const {
    figures.busy = busy_ / (seconds_ * seats_);
    figures.kv_use = live_ / reserved_;
    figures.saved = 1 - referenced_ / table_;
  }

  Timings timings;

 private:
  const int seats_;
  const bool drains_;
  const Clock& clock_;
  std::optional<Time> drained_;
  double busy_ = 0, live_ = 0, reserved_ = 0, table_ = 0, referenced_ = 0, seconds_ = 0;
};

// Of what is drawn up to `end`; but TTFT of all.
void FillInTimes(const std::vector<RequestTimes>& requests, Duration end, Figures& figures) {
  double ttft = 0, tokens = 0, gaps = 0, seconds = 0;
  for (const RequestTimes& times : requests) {
    ttft += times.ttft_seconds();
    const auto counted = std::upper_bound(times.drawn.begin(), times.drawn.end(), end);
    if (counted == times.drawn.begin()) continue;
    tokens += static_cast<double>(counted - times.drawn.begin());
    gaps += static_cast<double>(counted - times.drawn.begin() - 1);
    seconds += Seconds(*std::prev(counted) - times.first());
  }
  figures.tokens_per_second = tokens / Seconds(end);
  figures.ttft_seconds = ttft / static_cast<double>(requests.size());
  figures.tpot_seconds = seconds / gaps;
}

}  // namespace

absl::StatusOr<Measured> MeasureMode(const Scenario& scenario, const Mode& mode, const Bed& bed) {
  engine::EngineOptions options = bed.options;
  options.block_size = kBlockSize;
  options.batching = mode.batching;
  options.kv_layout = mode.layout;
  options.prefix_cache = mode.prefix_cache;
  options.max_seqs = scenario.sizes.seats;
  options.num_blocks = scenario.num_blocks;
  options.speculation = false;
  // Modes are compared by what they do with the device, not by how they share it out.
  options.inter_token_target = Duration::zero();
  options.queue_requests = static_cast<int32_t>(scenario.workload.requests.size());
  options.queue_tokens = int64_t{options.queue_requests} * options.context_length;

  Watch watch(scenario, mode, bed);
  const Time start = bed.clock.Now();
  QANAT_ASSIGN_OR_RETURN(const WorkloadResult result,
                         RunWorkload(scenario.workload, options, bed.runner, bed.clock,
                                     [&](const engine::Engine& engine, const engine::StepStats& stats) {
                                       watch.OnStep(engine, stats);
                                     }));
  Measured measured;
  const Duration end = watch.drained().has_value() ? *watch.drained() - start : result.span;
  watch.FillIn(measured.figures);
  FillInTimes(result.requests, end, measured.figures);
  measured.timings = std::move(watch.timings);
  return measured;
}

}  // namespace qanat::tools::claims
