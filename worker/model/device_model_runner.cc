#include "worker/model/device_model_runner.h"

#include <optional>
#include <utility>

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
    for (size_t i = 0; i < sequence.scored.size(); ++i) {
      logit_rows_.push_back(first_row + sequence.first_scored + static_cast<int>(i));
    }
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
  int row = 0;
  for (const engine::BatchSequence& sequence : batch_->sequences) {
    output.sequences.push_back(OutputOf(sequence, row));
    row += static_cast<int>(sequence.scored.size()) + (sequence.sample ? 1 + sequence.num_drafts : 0);
  }
  batch_ = nullptr;
  return output;
}

engine::SequenceOutput DeviceModelRunner::OutputOf(const engine::BatchSequence& sequence, int row) {
  engine::SequenceOutput output;
  for (const TokenId token : sequence.scored) {
    auto scored = scorer_.Score(backend_.Row(logits_, row++), token, sequence.scored_logprobs);
    if (!scored.has_value()) return {.kind = engine::SequenceOutput::Kind::kFailed};
    output.scored.push_back(*std::move(scored));
  }
  if (sequence.sample) Draw(sequence, row, output);
  return output;
}

void DeviceModelRunner::Draw(const engine::BatchSequence& sequence, int first_row,
                             engine::SequenceOutput& output) {
  const absl::Span<const TokenId> drafts = sequence.tokens.last(sequence.num_drafts);
  sampling::DrawKey key = sequence.draw;
  for (int i = 0; i <= sequence.num_drafts; ++i, ++key.position) {
    const absl::Span<const float> logits = backend_.Row(logits_, first_row + i);
    const std::optional<TokenId> token = DrawFrom(logits, sequence, key);
    if (!token.has_value()) {
      // Behind a draft it is left to the next step, which fails the same.
      if (i == 0) output = {.kind = engine::SequenceOutput::Kind::kFailed};
      break;
    }
    if (i == 0) {
      output.kind = engine::SequenceOutput::Kind::kToken;
      output.token = *token;
    } else {
      output.more.push_back(*token);
    }
    // The row is finite: a token was drawn from it.
    if (sequence.logprobs.has_value()) {
      output.drawn.push_back(*scorer_.Score(logits, *token, *sequence.logprobs));
    }
    if (i < sequence.num_drafts && drafts[i] != *token) break;
  }
}

std::optional<TokenId> DeviceModelRunner::DrawFrom(absl::Span<const float> logits,
                                                   const engine::BatchSequence& sequence,
                                                   const sampling::DrawKey& key) {
  if (sequence.rules == nullptr) return sampler_.Sample(logits, sequence.params, key);
  return sampler_.Sample(logits, sequence.params, key, *sequence.rules, *sequence.counts);
}

}  // namespace qanat::model
