// One run of a scenario in one mode, and the figures of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "tools/qanat/claims/scenario.h"
#include "worker/engine/model_runner.h"

namespace qanat::tools::claims {

// What counts: of static modes all of the run, which is whole batches to the end of the last one; of
// continuous ones, where all requests came at once, what is drawn until the last one is admitted, as the thin
// end after it is a matter of where a run stops; of closed loops all of the run.
struct Figures {
  double tokens_per_second = 0;
  double busy = 0;          // of the seats, those with something to compute, weighted by time
  double kv_use = 0;        // live token slots / reserved ones, weighted by time
  double saved = 0;         // of the blocks in tables, those that others hold as well, by time
  double ttft_seconds = 0;  // mean
  double tpot_seconds = 0;  // time after the first token / tokens after it, over all requests
};

struct MixedStep {
  double seconds = 0;
  int decodes = 0;
  int prompt_tokens = 0;
};

// What a run tells about its device.
struct Timings {
  std::map<int, std::vector<double>> step_seconds;  // of steps that only decode, by sequences
  std::vector<MixedStep> mixed;                     // those with prompts
};

struct Measured {
  Figures figures;
  Timings timings;
};

// Where scenarios run: a runner, its clock, and the engine's limits for it.
struct Bed {
  std::string name;
  engine::ModelRunner& runner;
  WaitableClock& clock;
  engine::EngineOptions options;  // but for mode, seats and pool
};

// INTERNAL as RunWorkload.
absl::StatusOr<Measured> MeasureMode(const Scenario& scenario, const Mode& mode, const Bed& bed);

}  // namespace qanat::tools::claims
