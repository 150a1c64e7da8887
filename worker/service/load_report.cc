#include "worker/service/load_report.h"

#include <algorithm>

namespace qanat::service {

api::Load LoadOf(const engine::Engine& engine, const EngineLoop& loop, const Clock& clock) {
  const engine::EngineSnapshot now = engine.Snapshot();
  api::Load load;
  load.load_version = now.load_version;
  load.running = now.running;
  load.waiting = now.waiting;
  load.waiting_tokens = now.waiting_tokens;
  load.prefill_tokens = now.prefill_tokens;
  load.context_tokens = now.context_tokens;
  load.total_blocks = now.total_blocks;
  load.free_blocks = now.free_blocks;
  load.cached_blocks = now.cached_blocks;
  load.draining = now.draining;
  load.step_model = now.step_model;
  load.step_id = loop.num_begun();
  if (const auto began = loop.StepBegan()) load.step_age = std::max(Duration::zero(), clock.Now() - *began);
  return load;
}

}  // namespace qanat::service
