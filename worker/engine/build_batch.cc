#include "worker/engine/build_batch.h"

#include "common/base/check.h"

namespace qanat::engine {
namespace {

absl::Span<const TokenId> TokensOf(const PlannedRow& row) {
  static constexpr TokenId kDrawn[] = {kDrawnBefore};
  if (row.follows) return kDrawn;
  if (!row.drafted.empty()) return row.drafted;
  return row.sequence->tokens().subspan(row.first, row.num_tokens);
}

BatchSequence ItemOf(const PlannedRow& row) {
  const Sequence& sequence = *row.sequence;
  BatchSequence item;
  item.id = row.id;
  item.first_position = row.first;
  item.tokens = TokensOf(row);
  item.num_drafts = row.num_drafts();
  item.block_table = sequence.table().blocks();
  item.sample = row.draws;
  item.params = sequence.request().sampling;
  item.rules = sequence.request().rules.get();
  item.counts = &sequence.token_counts();
  item.draw = {sequence.request().seed, sequence.choice(),
               static_cast<uint32_t>(sequence.num_expected() - sequence.num_prompt_tokens())};
  item.logprobs = sequence.request().logprobs;
  const Sequence::Scored scored = sequence.ScoredBy(row.first, row.num_tokens);
  item.scored = sequence.tokens().subspan(scored.first, scored.end - scored.first);
  item.first_scored = scored.first - 1 - row.first;
  item.scored_logprobs = sequence.request().prompt_logprobs.value_or(0);
  return item;
}

}  // namespace

BuiltBatch BuildBatch(const StepPlan& plan, const kv::KvManager& kv) {
  BuiltBatch built;
  built.batch.sequences.reserve(plan.rows.size());
  for (const PlannedRow& row : plan.rows) {
    BatchSequence& item = built.batch.sequences.emplace_back(ItemOf(row));
    // What is reserved beyond it is none of the runner's business.
    item.block_table = item.block_table.first(kv.BlocksFor(item.first_position + item.tokens.size()));
    for (size_t i = item.first_position / kv.block_size(); i < item.block_table.size(); ++i) {
      QANAT_CHECK(!kv.Shared(item.block_table[i])) << "a shared block would be written";
    }
    built.batch.num_tokens += static_cast<int32_t>(item.tokens.size());
  }
  built.shape = ShapeOf(built.batch);
  return built;
}

}  // namespace qanat::engine
