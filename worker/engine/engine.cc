#include "worker/engine/engine.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/engine/engine_impl.h"

namespace qanat::engine {

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
  door.Leave(std::exchange(left_requests, {}), std::exchange(left_tokens, 0));
}

void Engine::Impl::CheckInvariants() const {
  scheduler.CheckInvariants();
  const WaitingQueue& waiting = scheduler.waiting();
  QANAT_CHECK(sequences.size() ==
              scheduler.running().size() + static_cast<size_t>(waiting.size()) + stalled.size());
  QANAT_CHECK(scheduler.num_paused() == static_cast<int32_t>(stalled.size()));
  QANAT_CHECK(num_accepted == num_ended + sequences.size()) << "every accepted request ends once";
  QANAT_CHECK(untold.empty());
  for (const auto& [id, sequence] : sequences)
    QANAT_CHECK(sequence->num_told() == sequence->num_output_tokens());
  // The inbox may hold more.
  QANAT_CHECK(door.requests() >= waiting.num_queued());
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

Duration Engine::PredictedStep() const {
  return Duration(impl_->predicted_ns.load(std::memory_order_relaxed));
}

bool Engine::Step() { return impl_->Step(); }

bool Engine::WaitForWork() { return impl_->WaitForWork(); }

void Engine::Shutdown() {
  impl_->door.Close();
  impl_->inbox.Close();
}

void Engine::CheckInvariants() const { impl_->CheckInvariants(); }

}  // namespace qanat::engine
