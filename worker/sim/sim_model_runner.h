// A model runner without a model: everything of an engine is real but the device, which only takes the time.
#pragma once

#include <cstdint>
#include <deque>

#include "common/base/clock.h"
#include "common/base/step_model.h"
#include "worker/engine/model_runner.h"

namespace qanat::sim {

struct SimOptions {
  StepModel device;        // what a step takes
  int32_t vocabulary = 0;  // tokens are 0 .. vocabulary - 1
  int depth = 1;           // steps in flight
};

// A CPU worker on SmolLM2-135M Q4_1 with two threads on two cores of Emerald Rapids (AVX-512 VNNI), as `qanat
// bench predict` fitted it. Reading the weights is mostly part of `fixed_us`: beside the arithmetic of two
// cores it hides little.
inline constexpr StepModel kReferenceDevice{.fixed_us = 1842,
                                            .sequence_us = 169,
                                            .weights_us = 439,
                                            .token_us = 317,
                                            .context_us = 1.38,
                                            .attention_us = 0.320};

// What: one device that runs the steps in order of launch, each as long as `device` predicts; Collect waits
// on `clock` until its step is over. On the machine's clock that is a worker behind gRPC; on a virtual one a
// simulation, where nothing but steps takes time. Owns no keys and values: it reads no block.
//
// What a row draws depends on its request and its position alone, never on neighbours, tokens or blocks:
// - A token is a hash of (seed, choice, position); of the position alone where the request is greedy, whose
//   answer no seed changes. Every token is as likely as any other, so every score is -ln(vocabulary) and the
//   most likely are the first ids.
// - Of logit rules it keeps those that forbid (`allowed`, `late`). Bias and penalties change nothing: there
//   are no logits.
// - A draft is right when it is that hash.
//
// `clock` outlives it. Threads: the engine thread. Errors: none; no row fails.
class SimModelRunner final : public engine::ModelRunner {
 public:
  // REQUIRES: options.vocabulary > 0; options.depth >= 1.
  SimModelRunner(const SimOptions& options, WaitableClock& clock);

  Handle Launch(const engine::ModelBatch& batch) override;
  engine::StepOutput Collect(Handle handle) override;
  int depth() const override { return options_.depth; }

 private:
  struct Step {
    Handle handle;
    engine::StepOutput output;
    Time end;
  };

  engine::SequenceOutput OutputOf(const engine::BatchSequence& sequence) const;
  TokenId Draw(const engine::BatchSequence& sequence, uint32_t position) const;
  sampling::ScoredToken Score(TokenId token, int32_t num_likeliest) const;

  const SimOptions options_;
  const float logprob_;  // of any token
  WaitableClock& clock_;
  std::deque<Step> in_flight_;  // in order of launch, and of end
  Time free_{};                 // when the device is done with them
  Handle last_handle_ = 0;
};

}  // namespace qanat::sim
