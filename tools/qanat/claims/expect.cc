#include "tools/qanat/claims/expect.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/check.h"
#include "tools/qanat/claims/closed_form.h"
#include "tools/qanat/measure.h"

namespace qanat::tools::claims {
namespace {

constexpr double kNone = -1;

template <typename Value>
double MeanOf(const Scenario& scenario, Value value) {
  double sum = 0;
  for (const WorkloadRequest& request : scenario.workload.requests) sum += value(request);
  return sum / static_cast<double>(scenario.workload.requests.size());
}

double MeanPrompt(const Scenario& scenario) {
  return MeanOf(scenario,
                [](const WorkloadRequest& request) { return static_cast<double>(request.prompt.size()); });
}

double ReservedBlocks(const Scenario& scenario) {
  return MeanOf(scenario, [](const WorkloadRequest& request) -> double {
    return BlocksFor(static_cast<int>(request.prompt.size()) + request.max_tokens);
  });
}

// How many seats a mode can fill: with contiguous tables as many as longest cases fit the pool.
int FillableSeats(const Scenario& scenario, const Mode& mode) {
  if (mode.layout == kv::Layout::kPaged) return scenario.sizes.seats;
  return std::clamp(static_cast<int>(scenario.num_blocks / ReservedBlocks(scenario)), 1,
                    scenario.sizes.seats);
}

// Of a prompt, the whole blocks that its group shares.
int SharedBlocks(const Scenario& scenario, const WorkloadRequest& request) {
  return std::min<int>(scenario.sizes.shared, static_cast<int>(request.prompt.size()) - 1) / kBlockSize;
}

// Blocks of shared beginnings that `rows` rows of random groups hold more than once. Each block by itself, as
// short prompts have fewer.
double SavedBlocks(const Scenario& scenario, double rows) {
  const int groups = scenario.sizes.groups;
  double saved = 0;
  for (int block = 0; block < scenario.sizes.shared / kBlockSize; ++block) {
    const double part = MeanOf(scenario, [&](const WorkloadRequest& request) -> double {
      return SharedBlocks(scenario, request) > block ? 1 : 0;
    });
    saved += rows * part - groups * (1 - std::pow(1 - part / groups, rows));
  }
  return saved;
}

Form FormOf(const Scenario& scenario, const Mode& mode, const Costs& costs) {
  std::vector<int> lengths;
  for (const WorkloadRequest& request : scenario.workload.requests) lengths.push_back(request.ends_after);
  const int seats = FillableSeats(scenario, mode);
  switch (mode.batching) {
    case engine::Batching::kStatic:
      return PaddedForm(lengths, seats, costs);
    case engine::Batching::kStaticCompacted:
      return CompactedForm(lengths, seats, costs);
    case engine::Batching::kContinuous:
      break;
  }
  return ContinuousForm(lengths, seats, costs, scenario.workload.concurrency > 0);
}

}  // namespace

Prices::Prices(const Timings& all, const Timings& reference) {
  for (const auto& [sequences, seconds] : all.step_seconds) steps_.emplace(sequences, Median(seconds));
  QANAT_CHECK(!steps_.empty());
  double seconds = 0, tokens = 0;
  for (const MixedStep& step : reference.mixed) {
    seconds += std::max(0.0, step.seconds - (step.decodes > 0 ? Step(step.decodes) : 0));
    tokens += step.prompt_tokens;
  }
  QANAT_CHECK(tokens > 0);
  prompt_token_ = seconds / tokens;
}

double Prices::Step(int sequences) const {
  const auto above = steps_.lower_bound(sequences);
  if (above == steps_.end()) return std::prev(above)->second;
  if (above->first == sequences || above == steps_.begin()) return above->second;
  const auto below = std::prev(above);
  const double part = static_cast<double>(sequences - below->first) / (above->first - below->first);
  return (1 - part) * below->second + part * above->second;
}

double ComputedShare(const Scenario& scenario) {
  const double again = 1 - static_cast<double>(scenario.sizes.groups) / scenario.sizes.requests;
  const double shared = MeanOf(scenario, [&](const WorkloadRequest& request) -> double {
    return SharedBlocks(scenario, request) * kBlockSize;
  });
  return 1 - again * shared / MeanPrompt(scenario);
}

Figures Expect(const Scenario& scenario, const Mode& mode, const Prices& prices, int max_batch_tokens) {
  const double prompt = MeanPrompt(scenario);
  const double computed = prompt * (mode.prefix_cache ? ComputedShare(scenario) : 1);
  const Form form = FormOf(scenario, mode,
                           {.step = [&](int sequences) { return prices.Step(sequences); },
                            .prompt_seconds = computed * prices.prompt_token(),
                            .prompts_at_once = std::max(1, static_cast<int>(max_batch_tokens / computed))});
  const double context = prompt + form.drawn;
  const bool paged = mode.layout == kv::Layout::kPaged;
  // Of a table's last block, half is empty in the mean.
  const double reserved = paged ? context + (kBlockSize - 1) / 2.0 : ReservedBlocks(scenario) * kBlockSize;
  const double saved =
      mode.prefix_cache ? SavedBlocks(scenario, form.seats) / form.seats * kBlockSize : 0;  // tokens of a row
  // Rows of one length go in step in a closed loop: how prompts and decodes mix is no matter of means.
  const bool closed_loop = scenario.workload.concurrency > 0;
  Figures expected;
  expected.tokens_per_second = form.tokens_per_second;
  expected.busy = form.seats / scenario.sizes.seats;
  expected.kv_use = (context - saved) / (reserved - saved);
  expected.saved = saved / reserved;
  expected.ttft_seconds = closed_loop ? kNone : form.ttft_seconds;
  expected.tpot_seconds = closed_loop ? kNone : form.tpot_seconds;
  return expected;
}

}  // namespace qanat::tools::claims
