#include "worker/engine/padded_runner.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/check.h"

namespace qanat::engine {
namespace {

constexpr std::array<TokenId, 1> kToken = {0};

}  // namespace

ModelRunner::Handle PaddedRunner::Launch(const ModelBatch& batch) {
  TakeSeats(batch);
  Step& step = in_flight_.emplace_back(Step{batch, batch.sequences.size(), {}});
  Pad(step);
  return inner_.Launch(step.batch);
}

StepOutput PaddedRunner::Collect(Handle handle) {
  StepOutput output = inner_.Collect(handle);
  QANAT_CHECK(!in_flight_.empty());
  output.sequences.resize(in_flight_.front().num_rows);
  in_flight_.pop_front();
  return output;
}

void PaddedRunner::TakeSeats(const ModelBatch& batch) {
  const auto seat_of = [this](const BatchSequence& row) {
    return std::find_if(seats_.begin(), seats_.end(), [&](const Seat& seat) { return seat.id == row.id; });
  };
  // Another batch has begun when nobody of the step before goes on.
  const bool goes_on = std::any_of(batch.sequences.begin(), batch.sequences.end(), [&](const auto& row) {
    const auto seat = seat_of(row);
    return seat != seats_.end() && seat->in_step;
  });
  if (!goes_on) seats_.clear();
  for (Seat& seat : seats_) seat.in_step = false;
  for (const BatchSequence& row : batch.sequences) {
    const auto computed = static_cast<int32_t>(row.tokens.size()) - row.num_drafts;
    const Seat taken = {row.id, row.first_position + computed, true};
    if (const auto seat = seat_of(row); seat != seats_.end()) {
      *seat = taken;
    } else {
      seats_.push_back(taken);
    }
  }
}

// A full step leaves less room for padding, and takes its time anyhow.
int32_t PaddedRunner::NumPadding(const ModelBatch& batch) const {
  int32_t logit_rows = 0;
  for (const BatchSequence& row : batch.sequences) {
    logit_rows += static_cast<int32_t>(row.scored.size()) + (row.sample ? 1 + row.num_drafts : 0);
  }
  const auto num_rows = static_cast<int32_t>(batch.sequences.size());
  return std::max(0, std::min({options_.max_seqs - num_rows, options_.max_batch_tokens - batch.num_tokens,
                               options_.max_logit_rows() - logit_rows}));
}

void PaddedRunner::Pad(Step& step) const {
  int32_t left = NumPadding(step.batch);
  step.tables.reserve(left);  // rows point into it
  for (const Seat& seat : seats_) {
    if (seat.in_step || left == 0) continue;
    --left;
    const auto index = static_cast<int32_t>(step.tables.size());
    const int32_t blocks = (seat.context + options_.block_size - 1) / options_.block_size;
    step.tables.emplace_back(blocks, options_.num_blocks + index);
    BatchSequence& row = step.batch.sequences.emplace_back();
    row.id = kPaddingId;
    row.first_position = seat.context - 1;
    row.tokens = kToken;
    row.block_table = step.tables.back();
    row.sample = true;
    row.params.temperature = 0;
    ++step.batch.num_tokens;
  }
}

}  // namespace qanat::engine
