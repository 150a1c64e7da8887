#include "worker/engine/scheduler.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "common/base/check.h"

namespace qanat::engine {
namespace {

// Tokens that a preemption would throw away for good: those in blocks that nobody else references. Empty when
// there is no such block, so that a preemption would free nothing.
std::optional<int32_t> ExclusiveTokens(const kv::KvManager& kv, const Sequence& sequence) {
  std::optional<int32_t> tokens;
  int32_t first = 0;  // of the block
  for (const kv::BlockId block : sequence.table().blocks()) {
    if (kv.Exclusive(block)) {
      tokens = tokens.value_or(0) + std::clamp(sequence.num_computed() - first, 0, kv.block_size());
    }
    first += kv.block_size();
  }
  return tokens;
}

}  // namespace

void Scheduler::Add(Sequence& sequence) {
  // The hashes are kept for the admission; until then the load tells what is really left to compute.
  Look(waiting_.Add(sequence));
}

StepPlan Scheduler::Plan(Time now, const StepModel& model) {
  StepPlan plan;
  plan.rows.reserve(options_.max_seqs);
  budget_ = StepBudget(options_.max_batch_tokens, options_.inter_token_target, model);
  num_prefills_ = 0;
  spare_logit_rows_ = options_.max_logit_rows() - static_cast<int32_t>(running_.size());
  PlanDecodes(plan);
  PlanPrefills(plan);
  if (plan.preemptions == 0) {
    const auto before = static_cast<int32_t>(running_.size());
    AdmitWaiting(plan, now, static_cast<size_t>(before + batches_->FreeSeats(before)));
    batches_->OnAdmitted(static_cast<int32_t>(running_.size()) - before, num_prefills_ > 0);
  }
  if (options_.speculation) AddDrafts(plan);
  return plan;
}

void Scheduler::PlanDecodes(StepPlan& plan) {
  const bool drafting = Drafting();
  // Preemption takes sequences behind `i` out, or the one at `i` when it is the last.
  for (size_t i = 0; i < running_.size(); ++i) {
    if (running_[i]->num_missing() == 1 && CanFollow(*running_[i], drafting)) PlanRunning(i, 1, plan);
  }
}

bool Scheduler::CanFollow(const Sequence& sequence, bool drafting) const {
  const Sequence::InFlight& flying = sequence.in_flight();
  if (flying.steps == 0) return true;
  // How many tokens they bring is open.
  if (flying.drafts > 0) return false;
  if (flying.draws == 0) return true;
  // Its last token is being drawn. Penalties go by it, and drafts begin with it.
  if (sequence.num_expected() == sequence.max_total_tokens()) return false;
  const sampling::LogitRules* rules = sequence.request().rules.get();
  return rules == nullptr ? !drafting : !rules->penalizes();
}

bool Scheduler::Drafting() const {
  return options_.speculation && static_cast<int32_t>(running_.size()) <= kMaxDraftingSequences &&
         std::all_of(running_.begin(), running_.end(),
                     [](const Sequence* sequence) { return sequence->num_missing() <= 1; });
}

PlannedRow Scheduler::RowOf(Sequence& sequence, int32_t num_tokens) const {
  PlannedRow row;
  row.sequence = &sequence;
  row.id = sequence.id();
  row.first = sequence.num_launched();
  row.num_tokens = num_tokens;
  row.draws = num_tokens == sequence.num_missing();
  row.follows = row.first >= sequence.num_tokens();
  return row;
}

void Scheduler::PlanPrefills(StepPlan& plan) {
  for (size_t i = 0; i < running_.size(); ++i) {
    const int32_t missing = running_[i]->num_missing();
    if (missing <= 1) continue;
    const int32_t num_tokens = Chunk(*running_[i], running_[i]->num_launched());
    const int32_t planned = num_tokens > 0 ? PlanRunning(i, num_tokens, plan) : 0;
    if (planned < missing) ++num_prefills_;
  }
}

int32_t Scheduler::Chunk(const Sequence& sequence, int32_t first) const {
  int32_t num_tokens = std::min(sequence.num_tokens() - first, options_.chunk_tokens);
  if (sequence.scores_prompt(first)) {
    num_tokens = std::min(num_tokens, sequence.first_scoring(first) - first + ScoreRows(sequence));
  }
  return budget_.Fit(num_tokens, first);
}

// Half of what is spare, so that others are admitted, too; and no more than its reader takes behind what
// steps in flight bring it, which may be nothing for now.
int32_t Scheduler::ScoreRows(const Sequence& sequence) const {
  const Sequence::InFlight& flying = sequence.in_flight();
  const Sequence::Scored coming = sequence.ScoredBy(sequence.num_computed(), flying.tokens);
  const int32_t room = sequence.request().sink->Room() - (coming.end - coming.first);
  const int32_t fewest = flying.steps > 0 ? 0 : 1;
  return std::clamp(room, fewest, std::max(1, spare_logit_rows_ / 2));
}

int32_t Scheduler::PlanRunning(size_t index, int32_t num_tokens, StepPlan& plan) {
  Sequence& needy = *running_[index];
  while (true) {
    const int64_t room = kv_.Room(needy.table()) - needy.num_launched();
    const int32_t fitting = static_cast<int32_t>(std::min<int64_t>(num_tokens, room));
    if (fitting > 0) {
      const bool reserved = kv_.Reserve(needy.table(), needy.num_launched() + fitting);
      QANAT_CHECK(reserved);
      plan.rows.push_back(RowOf(needy, fitting));
      budget_.Take(fitting, needy.num_launched() + fitting);
      spare_logit_rows_ -= std::max(0, needy.LogitRows(needy.num_launched(), fitting) - 1);
      return fitting;
    }
    // What it lacks comes when a step in flight is done: it sits this one out.
    if (kv_.HasRetired()) return 0;
    const size_t victim = ChooseVictim(index);
    Preempt(victim, plan);
    if (victim == index) return 0;
  }
}

size_t Scheduler::ChooseVictim(size_t needy) const {
  const size_t last = running_.size() - 1;
  if (last == needy) {
    QANAT_CHECK(needy > 0) << "the first in order lacks a block though it is alone: the door let in too much";
    return needy;
  }
  const size_t first_weighed = std::max(needy + 1, running_.size() - std::min<size_t>(kMaxVictims, last));
  size_t victim = last;
  int32_t fewest = std::numeric_limits<int32_t>::max();
  for (size_t i = last; i >= first_weighed; --i) {
    const std::optional<int32_t> tokens = ExclusiveTokens(kv_, *running_[i]);
    if (!tokens.has_value() || *tokens >= fewest) continue;
    victim = i;
    fewest = *tokens;
  }
  QANAT_CHECK(victim > 0) << "the first in order is never a victim";
  return victim;
}

void Scheduler::Preempt(size_t index, StepPlan& plan) {
  Sequence& sequence = *running_[index];
  const auto row = std::find_if(plan.rows.begin(), plan.rows.end(),
                                [&](const PlannedRow& planned) { return planned.sequence == &sequence; });
  if (row != plan.rows.end()) {
    budget_.GiveBack(row->num_tokens, row->first + row->num_tokens);
    plan.rows.erase(row);
  }
  StopRunning(index);
  sequence.Preempt();
  Look(waiting_.Add(sequence));
  ++plan.preemptions;
}

void Scheduler::AdmitWaiting(StepPlan& plan, Time now, size_t seats) {
  unallocated_blocks_ = 0;
  for (const Sequence* sequence : running_) unallocated_blocks_ += UnallocatedBlocks(*sequence);
  std::vector<Waiting*> passed;  // in order, none of them fits
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (running_.size() == seats || budget_.Fit(1, 0) == 0 || spare_logit_rows_ == 0) return;
    switch (TryAdmit(it->second, plan, now)) {
      case Admission::kAwaitsBlock:
        ++it;
        break;
      case Admission::kDoesNotFit:
        if (it->second.passed_by >= kMaxPasses || passed.size() == kMaxPasses) return;
        passed.push_back(&it->second);
        ++it;
        break;
      case Admission::kAdmitted:
        it = waiting_.Remove(it);
        for (Waiting* place : passed) ++place->passed_by;
        if (std::any_of(passed.begin(), passed.end(),
                        [](const Waiting* place) { return place->passed_by >= kMaxPasses; })) {
          return;
        }
        break;
    }
  }
}

kv::PrefixMatch Scheduler::Look(Waiting& place) {
  Sequence& sequence = *place.sequence;
  // A match ends before the last of the tokens it is asked for.
  const int32_t asked = std::min(sequence.num_tokens(), sequence.num_readable() + 1);
  const kv::PrefixMatch match = kv_.Match(sequence.table(), sequence.tokens().first(asked));
  waiting_.SetCachedTokens(place, static_cast<int32_t>(match.blocks.size()) * kv_.block_size());
  return match;
}

Scheduler::Admission Scheduler::TryAdmit(Waiting& place, StepPlan& plan, Time now) {
  Sequence& sequence = *place.sequence;
  if (sequence.held()) return Admission::kAwaitsBlock;
  if (place.awaited.has_value() && !kv_.IsPending(*place.awaited) &&
      producing_.By(*place.awaited, sequence.priority())) {
    return Admission::kAwaitsBlock;
  }
  place.awaited.reset();
  const kv::PrefixMatch match = Look(place);
  if (kv_.prefix_cache()) {
    const size_t next = match.blocks.size();
    const int32_t readable = std::min(sequence.num_tokens() - 1, sequence.num_readable());
    if (next < static_cast<size_t>(readable / kv_.block_size())) {
      const hash::BlockHash missing = kv_.Hashes(sequence.table(), sequence.tokens())[next];
      if (producing_.By(missing, sequence.priority())) {
        place.awaited = missing;
        return Admission::kAwaitsBlock;
      }
    }
  }
  const int32_t num_cached = static_cast<int32_t>(match.blocks.size()) * kv_.block_size();
  const int32_t missing = sequence.num_tokens() - num_cached;
  const int32_t num_tokens = Chunk(sequence, num_cached);
  if (num_tokens == 0) return Admission::kDoesNotFit;
  const bool stays_prefill = num_tokens < missing;
  if (stays_prefill && num_prefills_ == kMaxPrefills) return Admission::kDoesNotFit;
  if (!Fits(sequence, match)) return Admission::kDoesNotFit;
  Admit(sequence, match, num_tokens, plan, now);
  if (stays_prefill) ++num_prefills_;
  return Admission::kAdmitted;
}

bool Scheduler::Fits(const Sequence& sequence, const kv::PrefixMatch& match) const {
  if (running_.empty() && !kv_.HasRetired()) return true;  // the door saw to it
  const int32_t known = kv_.BlocksFor(Held(sequence, sequence.num_tokens()));
  const int32_t need = known - static_cast<int32_t>(match.blocks.size());
  const int32_t one_each = static_cast<int32_t>(running_.size()) + 1;
  if (!kv_.Fits(need, unallocated_blocks_ + one_each, match)) return false;
  if (num_guarded_ == 0 && sequence.num_preemptions() < kMaxPreemptions) return true;
  return running_worst_blocks_ + WorstBlocks(sequence) <= kv_.pool().num_blocks();
}

void Scheduler::Admit(Sequence& sequence, const kv::PrefixMatch& match, int32_t num_tokens, StepPlan& plan,
                      Time now) {
  const int32_t num_cached = static_cast<int32_t>(match.blocks.size()) * kv_.block_size();
  // The other choices are no requests of their own.
  if (!sequence.ever_admitted() && sequence.choice() == 0) {
    ++plan.started[static_cast<size_t>(sequence.priority())];
    plan.started_tokens += sequence.num_prompt_tokens();
    const bool queries = kv_.prefix_cache() && sequence.request().reads_cache();
    plan.queried_tokens += queries ? sequence.num_prompt_tokens() : 0;
    plan.hit_tokens += num_cached;
  }
  kv_.Attach(sequence.table(), match);
  const bool reserved = kv_.Reserve(sequence.table(), Held(sequence, num_cached + num_tokens));
  QANAT_CHECK(reserved) << "admission promised these blocks";
  sequence.Admit(num_cached, now);
  StartRunning(sequence);
  unallocated_blocks_ += UnallocatedBlocks(sequence);
  plan.rows.push_back(RowOf(sequence, num_tokens));
  budget_.Take(num_tokens, num_cached + num_tokens);
  spare_logit_rows_ -= std::max(1, sequence.LogitRows(num_cached, num_tokens));
}

void Scheduler::AddDrafts(StepPlan& plan) {
  if (static_cast<int32_t>(running_.size()) > kMaxDraftingSequences) return;
  // A chunk makes the step long already, and takes what budget there is.
  const bool decodes_only = std::all_of(plan.rows.begin(), plan.rows.end(),
                                        [](const PlannedRow& row) { return row.num_tokens == 1; });
  if (!decodes_only) return;
  for (PlannedRow& row : plan.rows) {
    // Rules change with every token that is drawn: the model could not check them a row at a time.
    if (row.draws && !row.follows && row.sequence->request().rules == nullptr) DraftFor(row);
  }
}

void Scheduler::DraftFor(PlannedRow& row) {
  Sequence& sequence = *row.sequence;
  // The draw behind the last draft must have its place as well: in the sequence, and with its reader.
  const int32_t room =
      std::min(sequence.max_total_tokens() - sequence.num_tokens(), sequence.request().sink->Room());
  // Only what lies free: not even a cached block is given up for a guess.
  const int64_t slots =
      static_cast<int64_t>(sequence.table().size() + kv_.pool().num_free()) * kv_.block_size();
  const int64_t most = std::min<int64_t>({PromptLookup::kMaxDrafts, room - 1, slots - sequence.num_tokens()});
  const int32_t limit = budget_.FitDrafts(static_cast<int32_t>(most), sequence.num_tokens());
  if (limit <= 0) return;
  const absl::Span<const TokenId> drafts = sequence.prompt_lookup().Propose(sequence.tokens(), limit);
  if (drafts.empty()) return;
  row.drafted.push_back(sequence.tokens().back());
  row.drafted.insert(row.drafted.end(), drafts.begin(), drafts.end());
  const bool reserved = kv_.Reserve(sequence.table(), sequence.num_tokens() + row.num_drafts());
  QANAT_CHECK(reserved);
  budget_.TakeDrafts(row.num_drafts(), sequence.num_tokens());
}

}  // namespace qanat::engine
