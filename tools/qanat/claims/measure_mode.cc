#include "tools/qanat/claims/measure_mode.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "tools/qanat/measure.h"

namespace qanat::tools::claims {
namespace {

constexpr double kNone = -1;
constexpr int kBlockSize = 16;

// Sums over the steps of a run, weighted by their time.
class Watch {
 public:
  Watch(const Scenario& scenario, const Bed& bed) : scenario_(scenario), clock_(bed.clock) {}

  void OnStep(const engine::Engine& engine, const engine::StepStats& stats) {
    const engine::EngineSnapshot now = engine.Snapshot();
    const double took = Seconds(stats.took);
    if (stats.prefill_tokens == 0) timings.step_seconds[stats.decode_tokens].push_back(took);
    mixed_.push_back({took, stats.decode_tokens, stats.prefill_tokens});
    if (drained_.has_value()) return;
    busy_ += took * stats.sequences;
    live_ += took * static_cast<double>(now.live_tokens);
    reserved_ += took * now.referenced_blocks * kBlockSize;
    table_ += took * now.table_blocks;
    referenced_ += took * now.referenced_blocks;
    seconds_ += took;
    const bool closed = scenario_.workload.concurrency > 0;
    if (!closed && now.waiting == 0) drained_ = clock_.Now();
  }

  // When the last one that waited was admitted.
  std::optional<Time> drained() const { return drained_; }
  void FillIn(Figures& figures) const {
    figures.busy = busy_ / (seconds_ * scenario_.sizes.seats);
    figures.kv_use = live_ / reserved_;
    figures.saved = 1 - referenced_ / table_;
  }
  // Time of the steps with prompts in them, less what their decodes would have taken alone.
  double PromptSeconds(const StepTimes& steps) const {
    double seconds = 0;
    for (const auto& [took, decodes, prefills] : mixed_) {
      if (prefills > 0) seconds += std::max(0.0, took - (decodes > 0 ? steps(decodes) : 0));
    }
    return seconds / static_cast<double>(scenario_.workload.requests.size());
  }

  Timings timings;

 private:
  struct Step {
    double seconds;
    int decodes;
    int prefills;
  };

  const Scenario& scenario_;
  const Clock& clock_;
  std::optional<Time> drained_;
  double busy_ = 0, live_ = 0, reserved_ = 0, table_ = 0, referenced_ = 0, seconds_ = 0;
  std::vector<Step> mixed_;
};

// Tokens drawn up to `end`; those of one request are taken to come at an even pace.
double DrawnUntil(const std::vector<RequestTimes>& requests, Duration end) {
  double tokens = 0;
  for (const RequestTimes& times : requests) {
    if (times.last <= end) {
      tokens += times.completion_tokens;
    } else if (times.first <= end) {
      tokens += 1 + (times.completion_tokens - 1) *
                        (Seconds(end - times.first) / Seconds(times.last - times.first));
    }
  }
  return tokens;
}

void FillInTimes(const std::vector<RequestTimes>& requests, Figures& figures) {
  double ttft = 0, after = 0, tokens = 0;
  for (const RequestTimes& times : requests) {
    ttft += times.ttft_seconds();
    after += Seconds(times.last - times.first);
    tokens += times.completion_tokens - 1;
  }
  figures.ttft_seconds = ttft / static_cast<double>(requests.size());
  figures.tpot_seconds = after / tokens;
}

// How many seats a mode can fill: with contiguous tables as many as longest cases fit the pool.
int FillableSeats(const Scenario& scenario, const Mode& mode) {
  if (mode.layout == kv::Layout::kPaged) return scenario.sizes.seats;
  const int longest = scenario.sizes.prompt + scenario.sizes.longest;
  return std::clamp(scenario.num_blocks / ((longest + kBlockSize - 1) / kBlockSize), 1, scenario.sizes.seats);
}

BatchForm FormOf(const Mode& mode, const std::vector<double>& batch, const StepSeconds& step) {
  switch (mode.batching) {
    case engine::Batching::kStatic:
      return PaddedForm(batch, step);
    case engine::Batching::kStaticCompacted:
      return CompactedForm(batch, step);
    case engine::Batching::kContinuous:
      break;
  }
  return ContinuousForm(batch, step);
}

// Of one row, weighted by the time it decodes.
double MeanContext(const Scenario& scenario) {
  double tokens = 0, squares = 0;
  for (const WorkloadRequest& request : scenario.workload.requests) {
    tokens += request.ends_after;
    squares += static_cast<double>(request.ends_after) * request.ends_after;
  }
  return scenario.sizes.prompt + squares / (2 * tokens);
}

// Of a prompt, in the mean: the tokens of whole blocks that its group shares.
double SharedTokens(const Scenario& scenario) {
  double tokens = 0;
  for (const WorkloadRequest& request : scenario.workload.requests) {
    const int shared = std::min<int>(scenario.sizes.shared, static_cast<int>(request.prompt.size()) - 1);
    tokens += shared / kBlockSize * kBlockSize;
  }
  return tokens / static_cast<double>(scenario.workload.requests.size());
}

// Blocks of shared beginnings that `rows` rows of random groups hold more than once.
double SavedBlocks(const Scenario& scenario, int rows) {
  const int groups = scenario.sizes.groups;
  double none = 1;
  for (int i = 0; i < rows; ++i) none *= 1 - 1.0 / groups;
  return (rows - groups * (1 - none)) * SharedTokens(scenario) / kBlockSize;
}

}  // namespace

void StepTimes::Add(const Timings& timings) {
  for (const auto& [sequences, seconds] : timings.step_seconds) {
    std::vector<double>& all = seconds_[sequences];
    all.insert(all.end(), seconds.begin(), seconds.end());
  }
}

double StepTimes::operator()(int sequences) const {
  QANAT_CHECK(!seconds_.empty());
  const auto above = seconds_.lower_bound(sequences);
  if (above == seconds_.end()) return Median(std::prev(above)->second);
  if (above->first == sequences || above == seconds_.begin()) return Median(above->second);
  const auto below = std::prev(above);
  const double part = static_cast<double>(sequences - below->first) / (above->first - below->first);
  return (1 - part) * Median(below->second) + part * Median(above->second);
}

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

  Watch watch(scenario, bed);
  const Time start = bed.clock.Now();
  QANAT_ASSIGN_OR_RETURN(const WorkloadResult result,
                         RunWorkload(scenario.workload, options, bed.runner, bed.clock,
                                     [&](const engine::Engine& engine, const engine::StepStats& stats) {
                                       watch.OnStep(engine, stats);
                                     }));
  Measured measured;
  const Duration end = watch.drained().has_value() ? *watch.drained() - start : result.span;
  measured.figures.tokens_per_second = DrawnUntil(result.requests, end) / Seconds(end);
  watch.FillIn(measured.figures);
  FillInTimes(result.requests, measured.figures);
  measured.timings = std::move(watch.timings);
  StepTimes own;
  own.Add(measured.timings);
  measured.timings.prompt_seconds = watch.PromptSeconds(own);
  return measured;
}

double ComputedShare(const Scenario& scenario) {
  const double again = 1 - static_cast<double>(scenario.sizes.groups) / scenario.sizes.requests;
  return 1 - again * SharedTokens(scenario) / scenario.sizes.prompt;
}

Figures Expect(const Scenario& scenario, const Mode& mode, const StepTimes& steps, double prompt_seconds) {
  const int seats = FillableSeats(scenario, mode);
  std::vector<int> lengths;
  for (const WorkloadRequest& request : scenario.workload.requests) lengths.push_back(request.ends_after - 1);
  const std::vector<double> batch = ExpectedBatch(lengths, seats);
  const BatchForm form = FormOf(mode, batch, [&](int sequences) { return steps(sequences); });
  // The first token of each comes with its prompt.
  const double prompts = seats * prompt_seconds;
  const double seconds = form.seconds + prompts;
  Figures expected;
  expected.tokens_per_second = (form.tokens + seats) / seconds;
  expected.busy = (form.busy * form.seconds + prompts) / seconds * seats / scenario.sizes.seats;
  const double context = MeanContext(scenario);
  const double paged = context + (kBlockSize - 1) / 2.0;
  const double longest = scenario.sizes.prompt + scenario.sizes.longest;
  expected.kv_use = context / (mode.layout == kv::Layout::kPaged ? paged : longest);
  expected.saved = mode.prefix_cache ? SavedBlocks(scenario, seats) / (seats * paged / kBlockSize) : 0;
  const bool continuous = mode.batching == engine::Batching::kContinuous;
  const bool closed_loop = scenario.workload.concurrency > 0;
  const double waves = static_cast<double>(lengths.size()) / seats;
  if (closed_loop) {
    // Rows of one length go in step there: how prompts and decodes mix is no matter of means.
    expected.tpot_seconds = expected.ttft_seconds = kNone;
  } else {
    expected.tpot_seconds = continuous ? seats / expected.tokens_per_second : form.step_seconds;
    expected.ttft_seconds = (waves - 1) / 2 * seconds + (continuous ? prompt_seconds : prompts);
  }
  return expected;
}

}  // namespace qanat::tools::claims
