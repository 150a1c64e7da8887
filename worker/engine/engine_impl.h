// The engine's inside, of which engine.cc is what other threads see, engine_step.cc a step, and
// engine_lives.cc how sequences come and go.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"
#include "worker/engine/build_batch.h"
#include "worker/engine/door.h"
#include "worker/engine/drain_estimate.h"
#include "worker/engine/end_status.h"
#include "worker/engine/engine.h"
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
  void Predict();
  StepPlan PlanStep(Time now, StepStats& stats);
  void Collect();
  void Commit(const StepPlan& plan, StepOutput output, Time now);
  bool Settle();

  void CommitRow(const PlannedRow& row, SequenceOutput& output, Time now);
  // The row's token `index`. The reason when it is the last one.
  std::optional<EndReason> CommitToken(Sequence& sequence, SequenceOutput& output, size_t index, Time now);
  void End(Sequence& sequence, EndReason reason, Time now) { End(sequence, reason, now, StatusOf(reason)); }
  void End(Sequence& sequence, EndReason reason, Time now, absl::Status status);
  // The other choices of its request that have not ended.
  std::vector<Sequence*> OthersOf(const Sequence& choice0) const;
  void ReleaseOthers(const Sequence& choice0);
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
  std::atomic<int64_t> predicted_ns{0};  // for the steps in flight
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
  Duration longest_unfitted{};  // of the steps before it knew
  uint64_t num_steps = 0;
  uint64_t num_accepted = 0;
  uint64_t num_ended = 0;
  int64_t num_evictions = 0;  // as of the last step
  StepStats stats;            // of the step being committed

  // What callers have not been told yet; empty between steps.
  Untold untold;
  CountByPriority left_requests{};  // left the queue, still counted by the door
  int64_t left_tokens = 0;
};

}  // namespace qanat::engine
