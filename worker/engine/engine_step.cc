// A step, phase by phase.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/units.h"
#include "worker/engine/engine_impl.h"

namespace qanat::engine {
namespace {

// No prediction is longer, so that a few of them are a duration.
constexpr double kLongestUs = 3600e6;

}  // namespace

bool Engine::Impl::Step() {
  const Time begin = clock.Now();
  DrainInbox();
  ExpireDeadlines(begin);
  PauseStalled(begin);
  if (!HasWork()) return Settle();
  // A device that takes several steps gets the next one before the last is collected, so that it never waits
  // for the host.
  const bool launched = Launch(begin);
  if (!launched || static_cast<int>(flights.size()) == runner.depth()) Collect();
#if defined(QANAT_DEBUG_CHECKS)
  CheckInvariants();
#endif
  return true;
}

// False when nobody could be planned before the steps in flight are done.
bool Engine::Impl::Launch(Time begin) {
  StepStats planning;
  StepPlan plan = PlanStep(begin, planning);
  if (plan.rows.empty()) {
    QANAT_CHECK(!flights.empty()) << sequences.size() << " sequences are pending and none of them can run";
    // What the plan did is told with the step that is collected in its place.
    flights.front().stats.preemptions += planning.preemptions;
    flights.front().stats.evictions += planning.evictions;
    Settle();
    return false;
  }
  BuiltBatch built = BuildBatch(plan, kv);
  Settle();
  planning.plan = clock.Now() - begin;
  const int32_t started = std::accumulate(plan.started.begin(), plan.started.end(), 0);
  Flight& flight = flights.emplace_back(Flight{begin, {}, std::move(built), 0, started, planning});
  scheduler.Launch(std::move(plan), runner.depth() > 1);
  Predict();
  const Time before = clock.Now();
  flight.handle = runner.Launch(flight.built.batch);
  flight.launched = clock.Now();
  flight.stats.launch = flight.launched - before;
  return true;
}

void Engine::Impl::Predict() {
  double us = 0;
  for (const Flight& flight : flights) us += fitter.model().PredictUs(flight.built.shape);
  if (fitter.model() == StepModel())
    us = Seconds(longest_unfitted) * 1e6 * static_cast<double>(flights.size());
  predicted_ns.store(static_cast<int64_t>(std::min(us, kLongestUs) * 1e3), std::memory_order_relaxed);
}

StepPlan Engine::Impl::PlanStep(Time now, StepStats& stats) {
  StepPlan plan = scheduler.Plan(now, fitter.model());
  for (size_t i = 0; i < plan.started.size(); ++i) left_requests[i] += plan.started[i];
  left_tokens += plan.started_tokens;
  stats.sequences = static_cast<int32_t>(plan.rows.size());
  stats.preemptions = plan.preemptions;
  stats.queried_tokens = plan.queried_tokens;
  stats.hit_tokens = plan.hit_tokens;
  stats.evictions =
      static_cast<int32_t>(kv.num_evictions() - std::exchange(num_evictions, kv.num_evictions()));
  return plan;
}

// The oldest step in flight.
void Engine::Impl::Collect() {
  // Where it lies until then: the runner may point into its batch.
  StepOutput output = runner.Collect(flights.front().handle);
  const Flight flight = std::move(flights.front());
  flights.pop_front();
  const Time collected = clock.Now();
  stats = flight.stats;
  stats.device = collected - std::max(flight.launched, last_end);
  Commit(scheduler.Collect(), std::move(output), collected);
  TellResidency();
  const Time end = clock.Now();
  stats.commit = end - collected;
  // Where steps overlap, a step takes what it adds.
  stats.took = end - std::max(flight.begin, last_end);
  stats.shape = flight.built.shape;
  last_end = end;
  if (fitter.model() == StepModel()) longest_unfitted = std::max(longest_unfitted, stats.took);
  fitter.Add(stats.shape, stats.took);
  drain.OnStep(stats.took, flight.started, scheduler.waiting().size());
  ++num_steps;
  metrics.OnStep(stats);
  Settle();
}

void Engine::Impl::Commit(const StepPlan& plan, StepOutput output, Time now) {
  QANAT_CHECK(output.sequences.size() == plan.rows.size());
  for (size_t i = 0; i < output.sequences.size(); ++i) CommitRow(plan.rows[i], output.sequences[i], now);
}

void Engine::Impl::CommitRow(const PlannedRow& row, SequenceOutput& output, Time now) {
  if (output.kind == SequenceOutput::Kind::kFailed) {
    scheduler.Withdraw(row);
    if (row.sequence == nullptr) return;
    ++stats.failed_rows;
    End(*row.sequence, EndReason::kError, now);
    return;
  }
  QANAT_CHECK(row.draws == (output.kind == SequenceOutput::Kind::kToken));
  // It ended, paused or was preempted meanwhile; what it gives is drawn again if anybody needs it.
  if (row.sequence == nullptr) {
    scheduler.Commit(row);
    return;
  }
  Sequence& sequence = *row.sequence;
  const bool at_output = sequence.num_computed() >= sequence.num_prompt_tokens();
  if (const int32_t first = sequence.num_scored(); !output.scored.empty()) {
    untold.AddScores(sequence, first, std::move(output.scored));
  }
  stats.recomputed_tokens += scheduler.Commit(row);
  const bool decode = at_output && row.num_tokens == 1 && row.draws;
  (decode ? stats.decode_tokens : stats.prefill_tokens) += row.num_tokens;
  if (!row.draws) return;
  if (const auto last = sequence.last_token_time()) {
    // Tokens that come together share the gap before them.
    const auto together = static_cast<int64_t>(1 + output.more.size());
    for (int64_t i = 0; i < together; ++i) metrics.OnInterToken((now - *last) / together);
  }
  std::optional<EndReason> end = CommitToken(sequence, output, 0, now);
  size_t accepted = 0;
  while (accepted < output.more.size() && !end.has_value()) {
    scheduler.CommitDraft(sequence);
    end = CommitToken(sequence, output, ++accepted, now);
  }
  stats.decode_tokens += row.num_drafts();
  stats.accepted_drafts += static_cast<int32_t>(accepted);
  stats.rejected_drafts += row.num_drafts() - static_cast<int32_t>(accepted);
  if (end.has_value()) return End(sequence, *end, now);
  if (row.num_drafts() > 0) scheduler.EndDrafts(row, static_cast<int32_t>(accepted));
}

std::optional<EndReason> Engine::Impl::CommitToken(Sequence& sequence, SequenceOutput& output, size_t index,
                                                   Time now) {
  const TokenId token = index == 0 ? output.token : output.more[index - 1];
  const std::optional<EndReason> end = sequence.Append(token, now);
  std::optional<sampling::ScoredToken> score;
  if (!output.drawn.empty()) score = std::move(output.drawn[index]);
  untold.AddToken(sequence, std::move(score));
  if (sequence.num_output_tokens() == 1) ReleaseOthers(sequence);
  return end;
}

// Also where nobody listens: what is not taken stays.
void Engine::Impl::TellResidency() {
  const hash::SetDelta delta = kv.TakeDelta();
  if (listener != nullptr && !delta.empty()) listener->OnResidencyChange(delta);
}

// Publishes the state, then tells the sinks: who hears of an end finds it in the snapshot. False when there
// was nothing to tell.
bool Engine::Impl::Settle() {
  Publish();
  const bool any = !untold.empty();
  if (listener != nullptr && untold.num_ends() > 0) listener->OnLoadChange();
  untold.Tell(metrics);
  return any;
}

}  // namespace qanat::engine
