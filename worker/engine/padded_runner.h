// Steps that keep their shape, as servers computed them before batches were continuous.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "worker/engine/engine_options.h"
#include "worker/engine/model_runner.h"

namespace qanat::engine {

// What: computes, beside the rows of a batch, those that were in it and have ended: a token each, read over
// as much context as they had, drawn and thrown away, until nobody of the batch is left. They read and write
// blocks behind the engine's pool, one for each seat, and no other row notices them. `inner` outlives it;
// its arena holds options.num_blocks + options.padding_blocks() blocks. Threads, errors: as ModelRunner.
class PaddedRunner final : public ModelRunner {
 public:
  PaddedRunner(const EngineOptions& options, ModelRunner& inner) : options_(options), inner_(inner) {}

  Handle Launch(const ModelBatch& batch) override;
  StepOutput Collect(Handle handle) override;
  int depth() const override { return inner_.depth(); }

 private:
  // A row of the present batch, in this step or not any more.
  struct Seat {
    SequenceId id{};
    int32_t context = 0;  // computed
    bool in_step = false;
  };
  struct Step {
    ModelBatch batch;
    size_t num_rows = 0;  // of these, not padding
    std::vector<std::vector<int32_t>> tables;
  };

  void TakeSeats(const ModelBatch& batch);
  int32_t NumPadding(const ModelBatch& batch) const;
  void Pad(Step& step) const;

  const EngineOptions& options_;
  ModelRunner& inner_;
  std::vector<Seat> seats_;
  std::deque<Step> in_flight_;
};

}  // namespace qanat::engine
