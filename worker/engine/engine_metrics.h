// What the engine tells about itself while it runs. The worker's service feeds the metrics catalogue from it;
// tests record it.
#pragma once

#include <cstdint>

#include "common/base/clock.h"
#include "common/base/step_model.h"
#include "worker/engine/request.h"

namespace qanat::engine {

// One step that ran.
struct StepStats {
  int32_t sequences = 0;
  int32_t prefill_tokens = 0;  // recomputation included
  int32_t decode_tokens = 0;
  int32_t recomputed_tokens = 0;
  int32_t preemptions = 0;
  int32_t evictions = 0;       // cached blocks reused for other contents
  int32_t queried_tokens = 0;  // prompt tokens looked up in the prefix cache at admission
  int32_t hit_tokens = 0;
  int32_t failed_rows = 0;
  int32_t accepted_drafts = 0;
  int32_t rejected_drafts = 0;
  Duration plan{}, launch{}, device{}, commit{};
  // What the step model learns from.
  StepShape shape;
  Duration took{};
};

// Threads: the engine thread. Must not block. The default ignores everything.
class EngineMetrics {
 public:
  virtual ~EngineMetrics() = default;
  virtual void OnStep(const StepStats& stats) {}
  // Gap between two deliveries to one sequence.
  virtual void OnInterToken(Duration gap) {}
  virtual void OnEnd(const Outcome& outcome, Duration total) {}
};

}  // namespace qanat::engine
