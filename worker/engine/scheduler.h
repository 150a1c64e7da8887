// Who runs in the next step, and for how many tokens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/base/clock.h"
#include "worker/engine/batch_policy.h"
#include "worker/engine/engine_options.h"
#include "worker/engine/producing.h"
#include "worker/engine/sequence.h"
#include "worker/engine/step_budget.h"
#include "worker/engine/step_plan.h"
#include "worker/engine/waiting_queue.h"
#include "worker/kv/kv_manager.h"

namespace qanat::engine {

// Running prefills that are not done at the end of a step.
inline constexpr int32_t kMaxPrefills = 4;
// How often a waiting sequence that does not fit may see a smaller one admitted before it; also how many that
// do not fit are looked past in one step.
inline constexpr int32_t kMaxPasses = 8;
// How many of the last in order are weighed as victims.
inline constexpr int32_t kMaxVictims = 4;
// A sequence preempted so often is admitted again only when it cannot be preempted any more.
inline constexpr int32_t kMaxPreemptions = 3;

// Drafts are tried while no more sequences run: then a step's time is that of reading the weights, and more
// rows are nearly free.
inline constexpr int32_t kMaxDraftingSequences = 4;

// What: waiting and running sequences and the budgets -> StepPlan. Planning a row reserves its blocks, so a
// plan can always be carried out. docs/engine.md, "A step". Owns nothing: sequences belong to the engine,
// blocks to `kv`; both outlive it. Threads: the engine thread. Errors: none.
//
// Invariants:
//  1. `running_` is sorted by Order; its members are kRunning, those of `waiting_` kWaiting.
//  2. The first in order is never preempted: it always gets its tokens, so work that is pending gets done.
//  3. `producing_` holds exactly the missing full blocks that the running were admitted to compute.
//  4. While a sequence preempted kMaxPreemptions times runs, the worst cases of all running fit the pool.
class Scheduler {
 public:
  Scheduler(const EngineOptions& options, kv::KvManager& kv)
      : options_(options), kv_(kv), batches_(MakeBatchPolicy(options.batching, options.max_seqs)) {}

  // REQUIRES: kWaiting and new.
  void Add(Sequence& sequence);
  // Pauses the running whose sinks have no room for what a step would give them: they give up seat and
  // blocks, and leave the order.
  std::vector<Sequence*> PauseStalled(Time now);
  // It waits again, at its old place. REQUIRES: kPaused.
  void Resume(Sequence& sequence);
  // Takes it out of whichever set it is in and gives its blocks back. REQUIRES: added, not removed.
  void Remove(Sequence& sequence);

  // REQUIRES: the plan before was launched. Not empty if any sequence is running or waiting and no step is in
  // flight. `model` predicts the step's time, which --inter-token-target bounds while sequences decode.
  StepPlan Plan(Time now, const StepModel& model = {});
  // The plan's step was launched. With `overlapped` others may be planned before it is collected; they can
  // hit the blocks that it fills.
  void Launch(StepPlan plan, bool overlapped);
  // The oldest step in flight was collected: its plan, of which each row is to be committed or withdrawn, in
  // order. REQUIRES: one is in flight.
  StepPlan Collect();

  // A row ran: publishes the blocks that it filled. Returns Sequence::Advance's answer; 0 if its sequence is
  // gone.
  int32_t Commit(const PlannedRow& row);
  // A row failed: the blocks that it announced, and what steps in flight compute upon them, are no one's. Who
  // hit them waits again, at its old place. The sequence itself is the caller's to end.
  void Withdraw(const PlannedRow& row);
  // A draft of the row was right: its keys and values count. REQUIRES: it was appended to the sequence.
  void CommitDraft(Sequence& sequence);
  // The row is done with: gives back the blocks of drafts that were wrong, and lets the sequence learn.
  // REQUIRES: the sequence still runs.
  void EndDrafts(const PlannedRow& row, int32_t accepted);

  const std::vector<Sequence*>& running() const { return running_; }
  int32_t num_in_flight() const { return static_cast<int32_t>(in_flight_.size()); }  // steps
  int32_t num_paused() const { return num_paused_; }
  const WaitingQueue& waiting() const { return waiting_; }
  const Producing& producing() const { return producing_; }
  // Tokens with keys and values in referenced blocks, each block counted once.
  int64_t LiveTokens() const;
  void CheckInvariants() const;

 private:
  enum class Admission : uint8_t { kAdmitted, kDoesNotFit, kAwaitsBlock };

  // The four passes.
  void PlanDecodes(StepPlan& plan);
  void PlanPrefills(StepPlan& plan);
  // Until `seats` are taken.
  void AdmitWaiting(StepPlan& plan, Time now, size_t seats);
  void AddDrafts(StepPlan& plan);
  void DraftFor(PlannedRow& row);
  // It may compute its next token although a step in flight computes those before it.
  bool CanFollow(const Sequence& sequence, bool drafting) const;
  // Few decode and none prefills, so a step has rows to spare for drafts.
  bool Drafting() const;
  PlannedRow RowOf(Sequence& sequence, int32_t num_tokens) const;

  // Plans up to `num_tokens` of running_[index], as many as blocks allow; preempts others until that is one,
  // or, when nobody later in order is left, itself. Returns how many tokens it planned.
  int32_t PlanRunning(size_t index, int32_t num_tokens, StepPlan& plan);
  // How many of its known tokens behind the first `first` it gets.
  int32_t Chunk(const Sequence& sequence, int32_t first) const;
  // How many rows of logits it gets to score its prompt.
  int32_t ScoreRows(const Sequence& sequence) const;
  size_t ChooseVictim(size_t needy) const;
  void Preempt(size_t index, StepPlan& plan);

  // The longest cached prefix, noted at its place.
  kv::PrefixMatch Look(Waiting& place);
  Admission TryAdmit(Waiting& place, StepPlan& plan, Time now);
  bool Fits(const Sequence& sequence, const kv::PrefixMatch& match) const;
  void Admit(Sequence& sequence, const kv::PrefixMatch& match, int32_t num_tokens, StepPlan& plan, Time now);

  void StartRunning(Sequence& sequence);
  void StopRunning(size_t index);
  // Its rows in flight are nobody's.
  void Abandon(const Sequence& sequence);
  size_t IndexOf(const Sequence& sequence) const;

  int32_t WorstBlocks(const Sequence& sequence) const { return kv_.BlocksFor(sequence.max_total_tokens()); }
  // How many tokens its table has blocks for when it holds `num_tokens`.
  int32_t Held(const Sequence& sequence, int32_t num_tokens) const {
    return kv_.Held(num_tokens, sequence.max_total_tokens());
  }
  // Blocks of its known tokens that it has yet to take.
  int32_t UnallocatedBlocks(const Sequence& sequence) const {
    return std::max(0, kv_.BlocksFor(Held(sequence, sequence.num_expected())) - sequence.table().size());
  }
  // Of what it is producing, the hashes of blocks [first, last).
  absl::Span<const hash::BlockHash> Produced(Sequence& sequence, int32_t first, int32_t last) const;
  int32_t ProducedBlocks(const Sequence& sequence) const {
    return sequence.num_admitted_tokens() / kv_.block_size();
  }

  const EngineOptions& options_;
  kv::KvManager& kv_;
  const std::unique_ptr<BatchPolicy> batches_;
  std::vector<Sequence*> running_;  // sorted: at most max_seqs, so insertion is a short move
  WaitingQueue waiting_;
  int32_t num_paused_ = 0;
  Producing producing_;
  std::deque<StepPlan> in_flight_;    // launched, the oldest first
  int64_t running_worst_blocks_ = 0;  // sum of WorstBlocks over running_
  int32_t num_guarded_ = 0;           // of running_, preempted kMaxPreemptions times

  // Of the step being planned.
  StepBudget budget_;
  int32_t num_prefills_ = 0;        // running, not done at the end of the step
  int32_t spare_logit_rows_ = 0;    // beyond one for each of the running
  int32_t unallocated_blocks_ = 0;  // sum of UnallocatedBlocks over running_, in pass 3
};

}  // namespace qanat::engine
