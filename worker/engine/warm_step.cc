#include "worker/engine/warm_step.h"

#include <cstdint>

#include "common/base/ids.h"

namespace qanat::engine {
namespace {

// No request is ever called this.
constexpr SequenceId kNobody{~uint64_t{0}};

}  // namespace

absl::Status WarmUp(ModelRunner& runner) {
  constexpr TokenId kToken[] = {0};
  constexpr int32_t kBlock[] = {0};
  BatchSequence row;
  row.id = kNobody;
  row.tokens = kToken;
  row.block_table = kBlock;
  row.sample = true;
  ModelBatch batch;
  batch.sequences.push_back(row);
  batch.num_tokens = 1;
  const StepOutput output = runner.Collect(runner.Launch(batch));
  if (output.sequences.front().kind == SequenceOutput::Kind::kToken) return absl::OkStatus();
  return absl::InternalError("the device failed the first step: its logits are not finite");
}

}  // namespace qanat::engine
