#include "worker/model/device_model_runner.h"

#include <optional>

#include "common/base/check.h"

namespace qanat::model {

engine::ModelRunner::Handle DeviceModelRunner::Launch(const engine::ModelBatch& batch) {
  QANAT_CHECK(batch_ == nullptr) << "a step is in flight already";
  ids_.clear();
  logit_rows_.clear();
  layout_.sequences.clear();
  for (const engine::BatchSequence& sequence : batch.sequences) {
    const int first_row = static_cast<int>(ids_.size());
    const int num_rows = static_cast<int>(sequence.tokens.size());
    ids_.insert(ids_.end(), sequence.tokens.begin(), sequence.tokens.end());
    layout_.sequences.push_back({.first_row = first_row,
                                 .num_rows = num_rows,
                                 .first_position = sequence.first_position,
                                 .block_table = sequence.block_table});
    if (!sequence.sample) continue;
    for (int row = num_rows - 1 - sequence.num_drafts; row < num_rows; ++row)
      logit_rows_.push_back(first_row + row);
  }
  layout_.num_rows = static_cast<int>(ids_.size());
  QANAT_DCHECK(layout_.num_rows == batch.num_tokens);
  logits_ = model_.Forward(ids_, layout_, logit_rows_);
  batch_ = &batch;
  return ++handle_;
}

engine::StepOutput DeviceModelRunner::Collect(Handle handle) {
  QANAT_CHECK(batch_ != nullptr && handle == handle_) << "no such step in flight";
  backend_.Synchronize();
  engine::StepOutput output;
  output.sequences.resize(batch_->sequences.size());
  int row = 0;
  for (size_t i = 0; i < output.sequences.size(); ++i) {
    const engine::BatchSequence& sequence = batch_->sequences[i];
    if (!sequence.sample) continue;
    output.sequences[i] = Draw(sequence, row);
    row += 1 + sequence.num_drafts;
  }
  batch_ = nullptr;
  return output;
}

engine::SequenceOutput DeviceModelRunner::Draw(const engine::BatchSequence& sequence, int first_row) {
  engine::SequenceOutput output;
  const absl::Span<const TokenId> drafts = sequence.tokens.last(sequence.num_drafts);
  sampling::DrawKey key = sequence.draw;
  for (int i = 0; i <= sequence.num_drafts; ++i, ++key.position) {
    const std::optional<TokenId> token = DrawFrom(backend_.Row(logits_, first_row + i), sequence, key);
    if (!token.has_value()) {
      // Behind a draft it is left to the next step, which fails the same.
      if (i == 0) output.kind = engine::SequenceOutput::Kind::kFailed;
      break;
    }
    if (i == 0) {
      output.kind = engine::SequenceOutput::Kind::kToken;
      output.token = *token;
    } else {
      output.more.push_back(*token);
    }
    if (i < sequence.num_drafts && drafts[i] != *token) break;
  }
  return output;
}

std::optional<TokenId> DeviceModelRunner::DrawFrom(absl::Span<const float> logits,
                                                   const engine::BatchSequence& sequence,
                                                   const sampling::DrawKey& key) {
  if (sequence.rules == nullptr) return sampler_.Sample(logits, sequence.params, key);
  return sampler_.Sample(logits, sequence.params, key, *sequence.rules, *sequence.counts);
}

}  // namespace qanat::model
