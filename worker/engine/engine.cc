// Whole at this length: a step's phases and the state they share are read together; what could stand alone
// (the door, the budget, the batch, the news) does.
#include "worker/engine/engine.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "worker/engine/build_batch.h"
#include "worker/engine/door.h"
#include "worker/engine/drain_estimate.h"
#include "worker/engine/end_status.h"
#include "worker/engine/inbox.h"
#include "worker/engine/padded_runner.h"
#include "worker/engine/scheduler.h"
#include "worker/engine/sequence.h"
#include "worker/engine/step_model_fitter.h"
#include "worker/engine/untold.h"
#include "worker/kv/kv_manager.h"

namespace qanat::engine {
struct Engine::Impl {
  Impl(const EngineOptions& options, const hash::BlockHasher& hasher, ModelRunner& runner, const Clock& clock,
       EngineMetrics& metrics, StateListener* listener);
  ~Impl();

  absl::StatusOr<Accepted> Submit(Request request);
  void Drain();
  EngineSnapshot Snapshot() const;
  bool Step();
  bool WaitForWork();
  void CheckInvariants() const;
  bool HasWork() const {
    return !scheduler.running().empty() || scheduler.waiting().size() > 0 || !flights.empty();
  }

  // The phases of a step.
  void DrainInbox();
  void Accept(Submission submission);
  void Resume(SequenceId id);
  void ExpireDeadlines(Time now);
  void GiveUpLate(Time now);
  void PauseStalled(Time now);
  bool Launch(Time begin);
  StepPlan PlanStep(Time now, StepStats& stats);
  void Collect();
  void Commit(const StepPlan& plan, StepOutput output, Time now);
  bool Settle();

  void CommitRow(const PlannedRow& row, SequenceOutput& output, Time now);
  // The row's token `index`. The reason when it is the last one.
  std::optional<EndReason> CommitToken(Sequence& sequence, SequenceOutput& output, size_t index, Time now);
  void End(Sequence& sequence, EndReason reason, Time now) { End(sequence, reason, now, StatusOf(reason)); }
  void End(Sequence& sequence, EndReason reason, Time now, absl::Status status);
  void ReleaseOthers(const Sequence& choice0);
  void LeaveDoor(int32_t requests, int64_t tokens);
  void TellResidency();
  void Publish();

  const EngineOptions options;
  const std::unique_ptr<PaddedRunner> padded;  // null but where batches keep their shape
  ModelRunner& runner;
  const Clock& clock;
  EngineMetrics& metrics;
  StateListener* const listener;

  // For any thread.
  DrainEstimate drain;
  Door door;
  Inbox inbox;
  std::atomic<uint64_t> last_id{0};
  std::atomic<uint64_t> load_version{0};
  mutable Mutex mu;
  EngineSnapshot snapshot GUARDED_BY(mu);

  // For the engine thread.
  kv::KvManager kv;
  Scheduler scheduler;
  absl::flat_hash_map<SequenceId, std::unique_ptr<Sequence>> sequences;  // accepted, not ended
  std::set<std::pair<Time, SequenceId>> deadlines;                       // of these, where they have one
  std::map<SequenceId, Time> stalled;                                    // the paused: when they are given up
  // A step between launch and collection; the scheduler has its plan.
  struct Flight {
    Time begin;  // before its plan
    Time launched;
    BuiltBatch built;
    ModelRunner::Handle handle;
    int32_t started;  // sequences that it admitted for the first time
    StepStats stats;
  };
  std::deque<Flight> flights;  // the oldest first, at most runner.depth()
  Time last_end{};             // of a step
  StepModelFitter fitter;
  uint64_t num_steps = 0;
  uint64_t num_accepted = 0;
  uint64_t num_ended = 0;
  int64_t num_evictions = 0;  // as of the last step
  StepStats stats;            // of the step being committed

  // What callers have not been told yet; empty between steps.
  Untold untold;
  int32_t left_requests = 0;  // left the queue, still counted by the door
  int64_t left_tokens = 0;
};

Engine::Impl::Impl(const EngineOptions& options, const hash::BlockHasher& hasher, ModelRunner& runner,
                   const Clock& clock, EngineMetrics& metrics, StateListener* listener)
    : options(options),
      padded(options.batching == Batching::kStatic ? std::make_unique<PaddedRunner>(this->options, runner)
                                                   : nullptr),
      runner(padded != nullptr ? *padded : runner),
      clock(clock),
      metrics(metrics),
      listener(listener),
      door(this->options, drain),
      kv(options.num_blocks, options.prefix_cache, hasher, options.kv_layout),
      scheduler(this->options, kv) {
  const absl::Status valid = options.Validate();
  QANAT_CHECK(valid.ok()) << valid;
  QANAT_CHECK(hasher.block_size() == options.block_size);
  Publish();
}

Engine::Impl::~Impl() {
  door.Close();
  DrainInbox();
  const Time now = clock.Now();
  while (!sequences.empty()) End(*sequences.begin()->second, EndReason::kCancelled, now);
  for (const Flight& flight : flights) {
    runner.Collect(flight.handle);
    scheduler.Collect();
  }
  Settle();
}

absl::StatusOr<Accepted> Engine::Impl::Submit(Request request) {
  QANAT_CHECK(request.sink != nullptr);
  const Time now = clock.Now();
  QANAT_RETURN_IF_ERROR(door.Enter(request, now));
  const auto choices = static_cast<uint64_t>(request.num_choices());
  const SequenceId id{last_id.fetch_add(choices, std::memory_order_relaxed) + 1};
  // Between the door, which counts the request, and the inbox, from where it may end: a snapshot with this
  // version knows of it.
  const uint64_t version = load_version.fetch_add(1) + 1;
  inbox.Put(Submission{id, now, std::move(request)});
  if (listener != nullptr) listener->OnLoadChange();
  return Accepted{id, version};
}

void Engine::Impl::Drain() {
  door.Close();
  if (listener != nullptr) listener->OnLoadChange();
}

// Who runs or waits can always be worked on, so there is nothing to wait for, deadlines included. The paused
// wait for mail, or for the time when they are given up.
bool Engine::Impl::WaitForWork() {
  if (HasWork()) return !inbox.closed();
  std::optional<Time> until;
  if (!deadlines.empty()) until = deadlines.begin()->first;
  for (const auto& [id, given_up] : stalled) until = std::min(until.value_or(given_up), given_up);
  if (!until.has_value()) return inbox.Wait(std::nullopt);
  return inbox.Wait(std::max(*until - clock.Now(), Duration::zero()));
}

EngineSnapshot Engine::Impl::Snapshot() const {
  MutexLock lock(mu);
  EngineSnapshot result = snapshot;
  result.load_version = load_version.load();  // before the door: see Submit
  // Who came in since the last step counts at once; Publish lets them leave under this lock.
  result.waiting += door.requests();
  result.waiting_tokens += door.tokens();
  result.draining = door.closed();
  return result;
}

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
    Settle();
    return false;
  }
  BuiltBatch built = BuildBatch(plan, kv);
  Settle();
  planning.plan = clock.Now() - begin;
  Flight& flight = flights.emplace_back(Flight{begin, {}, std::move(built), 0, plan.started, planning});
  scheduler.Launch(std::move(plan), runner.depth() > 1);
  const Time before = clock.Now();
  flight.handle = runner.Launch(flight.built.batch);
  flight.launched = clock.Now();
  flight.stats.launch = flight.launched - before;
  return true;
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
  fitter.Add(stats.shape, stats.took);
  drain.OnStep(stats.took, flight.started, scheduler.waiting().size());
  ++num_steps;
  metrics.OnStep(stats);
  Settle();
}

void Engine::Impl::DrainInbox() {
  Mail mail = inbox.Take();
  for (Submission& submission : mail.submissions) Accept(std::move(submission));
  for (const Resumption& resumption : mail.resumptions) Resume(resumption.id);
  const Time now = clock.Now();
  for (const Cancellation& cancellation : mail.cancellations) {
    const auto it = sequences.find(cancellation.id);
    if (it != sequences.end()) End(*it->second, cancellation.reason, now);
  }
}

void Engine::Impl::Accept(Submission submission) {
  const std::vector<std::shared_ptr<TokenSink>> others = submission.request.other_sinks;
  const auto add = [&](Request request, uint32_t choice) {
    const SequenceId id{ToInt(submission.id) + choice};
    kv::BlockTable table = kv.NewTable(request.cache_namespace);
    auto sequence = std::make_unique<Sequence>(id, std::move(request), submission.arrival, options,
                                               std::move(table), choice);
    scheduler.Add(*sequence);
    if (const auto deadline = sequence->request().deadline) deadlines.emplace(*deadline, id);
    sequences.emplace(id, std::move(sequence));
    ++num_accepted;
  };
  for (size_t i = 0; i < others.size(); ++i) {
    Request request = submission.request;
    request.sink = others[i];
    request.other_sinks.clear();
    request.bypass_prefix_cache = false;
    request.prompt_logprobs.reset();
    add(std::move(request), static_cast<uint32_t>(i + 1));
  }
  add(std::move(submission.request), 0);
}

// Choice 0 has its prompt in the cache, or will not get it there soon: the others are on their own.
void Engine::Impl::ReleaseOthers(const Sequence& choice0) {
  for (int32_t i = 1; i < choice0.request().num_choices(); ++i) {
    const auto it = sequences.find(SequenceId{ToInt(choice0.id()) + static_cast<uint64_t>(i)});
    if (it != sequences.end()) it->second->Release();
  }
}

void Engine::Impl::ExpireDeadlines(Time now) {
  while (!deadlines.empty() && deadlines.begin()->first <= now) {
    End(*sequences.at(deadlines.begin()->second), EndReason::kDeadline, now);
  }
  GiveUpLate(now);
  for (auto it = stalled.begin(); it != stalled.end();) {
    Sequence& sequence = *sequences.at(it->first);
    const bool over = it->second <= now;
    ++it;  // End takes it out
    if (over) End(sequence, EndReason::kCancelled, now, ReaderStalled(options.stall_limit));
  }
}

// While others wait behind them, those in the queue that would not be done in time cost no compute.
void Engine::Impl::GiveUpLate(Time now) {
  std::vector<Sequence*> late;
  const Duration longest = drain.Service(std::numeric_limits<int32_t>::max());
  for (const auto& [deadline, id] : deadlines) {
    if (deadline > now + longest) break;
    Sequence& sequence = *sequences.at(id);
    const bool queued = sequence.state() == Sequence::State::kWaiting && !sequence.ever_admitted();
    if (queued && deadline <= now + drain.Service(sequence.request().max_tokens)) late.push_back(&sequence);
  }
  for (Sequence* sequence : late) {
    if (scheduler.waiting().size() == 1) return;
    End(*sequence, EndReason::kDeadline, now,
        absl::DeadlineExceededError(
            "the deadline cannot be met: what is left of it is less than an answer takes"));
  }
}

void Engine::Impl::PauseStalled(Time now) {
  for (Sequence* sequence : scheduler.PauseStalled()) {
    stalled.emplace(sequence->id(), now + options.stall_limit);
    ReleaseOthers(*sequence);
    untold.AddPause(*sequence);
  }
}

void Engine::Impl::Resume(SequenceId id) {
  if (stalled.erase(id) > 0) scheduler.Resume(*sequences.at(id));
}

StepPlan Engine::Impl::PlanStep(Time now, StepStats& stats) {
  StepPlan plan = scheduler.Plan(now, fitter.model());
  LeaveDoor(plan.started, plan.started_tokens);
  stats.sequences = static_cast<int32_t>(plan.rows.size());
  stats.preemptions = plan.preemptions;
  stats.queried_tokens = plan.queried_tokens;
  stats.hit_tokens = plan.hit_tokens;
  stats.evictions =
      static_cast<int32_t>(kv.num_evictions() - std::exchange(num_evictions, kv.num_evictions()));
  return plan;
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
  const int32_t recomputed = scheduler.Commit(row);
  stats.recomputed_tokens += recomputed;
  const bool decode = at_output && row.num_tokens == 1 && recomputed == 0;
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

void Engine::Impl::End(Sequence& sequence, EndReason reason, Time now, absl::Status status) {
  scheduler.Remove(sequence);
  if (!sequence.ever_admitted() && sequence.choice() == 0) LeaveDoor(1, sequence.num_prompt_tokens());
  ReleaseOthers(sequence);
  if (const auto deadline = sequence.request().deadline) deadlines.erase({*deadline, sequence.id()});
  stalled.erase(sequence.id());
  Outcome outcome = sequence.End(reason, std::move(status), now);
  // A deadline's end counts, too: else only the short ones would be known.
  const bool typical =
      reason == EndReason::kStop || reason == EndReason::kLength || reason == EndReason::kDeadline;
  if (typical && outcome.completion_tokens > 0) {
    drain.OnEnd(outcome.prefill + outcome.decode, outcome.completion_tokens);
  }
  const auto it = sequences.find(sequence.id());
  std::unique_ptr<Sequence> owned = std::move(it->second);
  sequences.erase(it);
  const Duration total = now - owned->arrival();
  untold.AddEnd(std::move(owned), std::move(outcome), total);
  ++num_ended;
}

void Engine::Impl::LeaveDoor(int32_t requests, int64_t tokens) {
  left_requests += requests;
  left_tokens += tokens;
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

void Engine::Impl::Publish() {
  const kv::BlockPool& pool = kv.pool();
  const WaitingQueue& waiting = scheduler.waiting();
  EngineSnapshot now;
  now.running = static_cast<int32_t>(scheduler.running().size());
  now.waiting = waiting.num_started();
  now.waiting_tokens = waiting.started_tokens() - waiting.cached_tokens();
  now.paused = scheduler.num_paused();
  for (const Sequence* sequence : scheduler.running()) {
    now.prefill_tokens += sequence->num_missing();
    now.context_tokens += sequence->num_tokens();
    now.table_blocks += sequence->table().size();
  }
  now.total_blocks = pool.num_blocks();
  now.free_blocks = pool.num_free();
  now.cached_blocks = pool.num_cached();
  now.referenced_blocks = pool.num_referenced();
  now.live_tokens = scheduler.LiveTokens();
  now.steps = num_steps;
  now.step_model = fitter.model();
  MutexLock lock(mu);
  snapshot = now;
  // In one with the snapshot: whoever reads this version finds them gone.
  const uint64_t ends = untold.num_ends();
  untold.SetLoadVersion(load_version.fetch_add(ends) + ends);
  door.Leave(std::exchange(left_requests, 0), std::exchange(left_tokens, 0));
}

void Engine::Impl::CheckInvariants() const {
  scheduler.CheckInvariants();
  const WaitingQueue& waiting = scheduler.waiting();
  QANAT_CHECK(sequences.size() ==
              scheduler.running().size() + static_cast<size_t>(waiting.size()) + stalled.size());
  QANAT_CHECK(scheduler.num_paused() == static_cast<int32_t>(stalled.size()));
  QANAT_CHECK(num_accepted == num_ended + sequences.size()) << "every accepted request ends once";
  QANAT_CHECK(untold.empty());
  // The inbox may hold more.
  QANAT_CHECK(door.requests() >= waiting.size() - waiting.num_started());
  QANAT_CHECK(door.requests() <= options.queue_requests && door.tokens() <= options.queue_tokens);
}

Engine::Engine(const EngineOptions& options, const hash::BlockHasher& hasher, ModelRunner& runner,
               const Clock& clock, EngineMetrics& metrics, StateListener* listener)
    : impl_(std::make_unique<Impl>(options, hasher, runner, clock, metrics, listener)) {}

Engine::~Engine() = default;

absl::StatusOr<Accepted> Engine::Submit(Request request) { return impl_->Submit(std::move(request)); }

void Engine::Cancel(SequenceId id, EndReason reason) { impl_->inbox.Put(Cancellation{id, reason}); }

void Engine::Resume(SequenceId id) { impl_->inbox.Put(Resumption{id}); }

void Engine::Drain() { impl_->Drain(); }

EngineSnapshot Engine::Snapshot() const { return impl_->Snapshot(); }

bool Engine::Step() { return impl_->Step(); }

bool Engine::WaitForWork() { return impl_->WaitForWork(); }

void Engine::Shutdown() {
  impl_->door.Close();
  impl_->inbox.Close();
}

void Engine::CheckInvariants() const { impl_->CheckInvariants(); }

}  // namespace qanat::engine
