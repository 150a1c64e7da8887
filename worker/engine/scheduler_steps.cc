// The scheduler beside its plans: what becomes of them, and who comes to run and stops.
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "worker/engine/scheduler.h"

namespace qanat::engine {
namespace {

bool Before(const Sequence* a, const Sequence* b) { return a->order() < b->order(); }

}  // namespace

void Scheduler::Launch(StepPlan plan, bool overlapped) {
  kv_.OnLaunch();
  for (PlannedRow& row : plan.rows) {
    Sequence& sequence = *row.sequence;
    sequence.Launch(row.num_tokens, row.draws, row.num_drafts());
    if (!overlapped || row.follows) continue;
    row.announced =
        kv_.Announce(sequence.table(), sequence.tokens().first(row.first + row.num_tokens), row.first);
  }
  in_flight_.push_back(std::move(plan));
}

StepPlan Scheduler::Collect() {
  StepPlan plan = std::move(in_flight_.front());
  in_flight_.pop_front();
  kv_.OnCollect();
  for (const PlannedRow& row : plan.rows) {
    if (row.sequence != nullptr) row.sequence->Collect(row.num_tokens, row.draws, row.num_drafts());
  }
  return plan;
}

int32_t Scheduler::Commit(const PlannedRow& row) {
  kv_.Settle(row.announced);
  if (row.sequence == nullptr) return 0;
  Sequence& sequence = *row.sequence;
  const int32_t first = sequence.num_computed() / kv_.block_size();
  const int32_t recomputed = sequence.Advance(row.num_tokens);
  kv_.Commit(sequence.table(), sequence.computed(), sequence.in_flight().steps > 0);
  const int32_t last = sequence.num_computed() / kv_.block_size();
  producing_.Remove(Produced(sequence, first, last), sequence.priority());
  return recomputed;
}

void Scheduler::Withdraw(const PlannedRow& row) {
  std::vector<kv::PendingBlock> announced = row.announced;
  // What it computes in later steps stands upon what it failed to.
  for (const StepPlan& plan : in_flight_) {
    for (const PlannedRow& later : plan.rows) {
      if (later.id != row.id) continue;
      announced.insert(announced.end(), later.announced.begin(), later.announced.end());
    }
  }
  if (announced.empty()) return;
  const auto withdrawn = kv_.Withdraw(announced);
  for (size_t i = running_.size(); i-- > 0;) {
    Sequence& sequence = *running_[i];
    const absl::Span<const kv::BlockId> found = sequence.table().blocks().first(sequence.table().num_found());
    if (std::none_of(found.begin(), found.end(),
                     [&](kv::BlockId block) { return withdrawn.contains(block); })) {
      continue;
    }
    StopRunning(i);
    sequence.StartOver();
    Look(waiting_.Add(sequence));
  }
}

void Scheduler::CommitDraft(Sequence& sequence) {
  sequence.Advance(1);
  kv_.Commit(sequence.table(), sequence.computed());
}

void Scheduler::EndDrafts(const PlannedRow& row, int32_t accepted) {
  row.sequence->prompt_lookup().Learn(row.num_drafts(), accepted);
  kv_.Trim(row.sequence->table(), Held(*row.sequence, row.sequence->num_computed()));
}

void Scheduler::Remove(Sequence& sequence) {
  switch (sequence.state()) {
    case Sequence::State::kWaiting:
      return waiting_.Remove(sequence);
    case Sequence::State::kRunning:
      return StopRunning(IndexOf(sequence));
    case Sequence::State::kPaused:
      --num_paused_;
      return;
    case Sequence::State::kEnded:
      break;
  }
  QANAT_CHECK(false) << "it has ended";
}

std::vector<Sequence*> Scheduler::PauseStalled(Time now) {
  std::vector<Sequence*> stalled;
  for (Sequence* sequence : running_) {
    const Sequence::InFlight& flying = sequence->in_flight();
    if (sequence->request().sink->Room() <= flying.draws + flying.drafts) stalled.push_back(sequence);
  }
  for (Sequence* sequence : stalled) {
    StopRunning(IndexOf(*sequence));
    sequence->Pause(now);
    ++num_paused_;
  }
  return stalled;
}

void Scheduler::Resume(Sequence& sequence) {
  sequence.Resume();
  --num_paused_;
  Look(waiting_.Add(sequence));
}

void Scheduler::StartRunning(Sequence& sequence) {
  running_.insert(std::lower_bound(running_.begin(), running_.end(), &sequence, Before), &sequence);
  const int32_t first = sequence.num_computed() / kv_.block_size();
  producing_.Add(Produced(sequence, first, ProducedBlocks(sequence)), sequence.priority());
  running_worst_blocks_ += WorstBlocks(sequence);
  if (sequence.num_preemptions() >= kMaxPreemptions) ++num_guarded_;
}

void Scheduler::StopRunning(size_t index) {
  Sequence& sequence = *running_[index];
  const int32_t first = sequence.num_computed() / kv_.block_size();
  producing_.Remove(Produced(sequence, first, ProducedBlocks(sequence)), sequence.priority());
  running_worst_blocks_ -= WorstBlocks(sequence);
  if (sequence.num_preemptions() >= kMaxPreemptions) --num_guarded_;
  if (sequence.in_flight().steps > 0) Abandon(sequence);
  kv_.Release(sequence.table(), sequence.in_flight().steps > 0);
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
}

void Scheduler::Abandon(const Sequence& sequence) {
  for (StepPlan& plan : in_flight_) {
    for (PlannedRow& row : plan.rows) {
      if (row.sequence == &sequence) row.sequence = nullptr;
    }
  }
}

size_t Scheduler::IndexOf(const Sequence& sequence) const {
  const auto it = std::lower_bound(running_.begin(), running_.end(), &sequence, Before);
  QANAT_CHECK(it != running_.end() && *it == &sequence);
  return static_cast<size_t>(it - running_.begin());
}

absl::Span<const hash::BlockHash> Scheduler::Produced(Sequence& sequence, int32_t first, int32_t last) const {
  last = std::min(last, ProducedBlocks(sequence));
  if (!kv_.prefix_cache() || first >= last) return {};
  return kv_.Hashes(sequence.table(), sequence.tokens()).subspan(first, last - first);
}

int64_t Scheduler::LiveTokens() const {
  // Published blocks are full, and may be in several tables.
  int64_t tokens = static_cast<int64_t>(kv_.num_resident() - kv_.pool().num_cached()) * kv_.block_size();
  for (const Sequence* sequence : running_) {
    const kv::BlockTable& table = sequence->table();
    tokens += std::max(
        0, sequence->num_computed() - std::max(table.num_published(), table.num_found()) * kv_.block_size());
  }
  return tokens;
}

void Scheduler::CheckInvariants() const {
  QANAT_CHECK(static_cast<int32_t>(running_.size()) <= options_.max_seqs);
  QANAT_CHECK(std::is_sorted(running_.begin(), running_.end(), Before));
  std::vector<const kv::BlockTable*> tables;
  int64_t worst_blocks = 0;
  int32_t prefills = 0;
  int32_t guarded = 0;
  int64_t produced = 0;
  for (const Sequence* sequence : running_) {
    QANAT_CHECK(sequence->state() == Sequence::State::kRunning);
    sequence->CheckInvariants();
    const int32_t flying = sequence->num_launched() + sequence->in_flight().drafts;
    QANAT_CHECK(sequence->table().size() == kv_.BlocksFor(Held(*sequence, flying)))
        << "between steps a sequence holds the blocks of what is computed, or in flight";
    kv_.CheckTable(sequence->table(), sequence->tokens());
    tables.push_back(&sequence->table());
    worst_blocks += WorstBlocks(*sequence);
    prefills += sequence->num_missing() > 1 ? 1 : 0;
    guarded += sequence->num_preemptions() >= kMaxPreemptions ? 1 : 0;
    produced += std::max(0, ProducedBlocks(*sequence) - sequence->num_computed() / kv_.block_size());
  }
  kv_.CheckInvariants(tables);
  QANAT_CHECK(prefills <= kMaxPrefills);
  QANAT_CHECK(worst_blocks == running_worst_blocks_ && guarded == num_guarded_);
  QANAT_CHECK(guarded == 0 || worst_blocks <= kv_.pool().num_blocks());
  QANAT_CHECK(producing_.total() == (kv_.prefix_cache() ? produced : 0));
  for (const auto& [order, place] : waiting_) {
    QANAT_CHECK(place.sequence->state() == Sequence::State::kWaiting && place.passed_by <= kMaxPasses);
    place.sequence->CheckInvariants();
  }
}

}  // namespace qanat::engine
