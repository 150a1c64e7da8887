// Runs an engine's steps on a real model.
#pragma once

#include <optional>
#include <vector>

#include "worker/backend/backend.h"
#include "worker/engine/model_runner.h"
#include "worker/model/model.h"
#include "worker/sampling/sampler.h"
#include "worker/sampling/scorer.h"

namespace qanat::model {

// What: a ModelRunner over a Model and its Backend, with the sampling on the host. Owns its sampler and
// scratch; model and backend outlive it. Threads: the engine thread. Errors: a row whose logits are not
// finite fails alone (kFailed). Depth 1: Launch computes, Collect samples. A batch fits the model's
// StepLimits, or a check ends the process.
class DeviceModelRunner : public engine::ModelRunner {
 public:
  // REQUIRES: backend.AllocateKv() was called.
  DeviceModelRunner(Model& model, backend::Backend& backend) : model_(model), backend_(backend) {}

  Handle Launch(const engine::ModelBatch& batch) override;
  engine::StepOutput Collect(Handle handle) override;

 private:
  // The scores and tokens of one sequence, whose logits begin with row `row`.
  engine::SequenceOutput OutputOf(const engine::BatchSequence& sequence, int row);
  // The tokens, whose logits begin with row `first_row`.
  void Draw(const engine::BatchSequence& sequence, int first_row, engine::SequenceOutput& output);
  std::optional<TokenId> DrawFrom(absl::Span<const float> logits, const engine::BatchSequence& sequence,
                                  const sampling::DrawKey& key);

  Model& model_;
  backend::Backend& backend_;
  sampling::Sampler sampler_;
  sampling::Scorer scorer_;

  // The step in flight: null between Collect and Launch.
  const engine::ModelBatch* batch_ = nullptr;
  Handle handle_ = 0;
  backend::Activations logits_;
  // Scratch, kept for its capacity.
  std::vector<TokenId> ids_;
  std::vector<int32_t> logit_rows_;
  backend::BatchLayout layout_;
};

}  // namespace qanat::model
