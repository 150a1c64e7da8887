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
    if (sequence.sample) logit_rows_.push_back(first_row + num_rows - 1);
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
    const std::optional<TokenId> token = Draw(sequence, backend_.Row(logits_, row++));
    output.sequences[i] = token.has_value()
                              ? engine::SequenceOutput{engine::SequenceOutput::Kind::kToken, *token}
                              : engine::SequenceOutput{engine::SequenceOutput::Kind::kFailed, -1};
  }
  batch_ = nullptr;
  return output;
}

std::optional<TokenId> DeviceModelRunner::Draw(const engine::BatchSequence& sequence,
                                               absl::Span<const float> logits) {
  if (sequence.rules == nullptr) return sampler_.Sample(logits, sequence.params, sequence.draw);
  return sampler_.Sample(logits, sequence.params, sequence.draw, *sequence.rules, *sequence.counts);
}

}  // namespace qanat::model
