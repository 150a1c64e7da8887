// One run of a scenario in one mode, and the figures of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "tools/qanat/claims/closed_form.h"
#include "tools/qanat/claims/scenario.h"
#include "worker/engine/model_runner.h"

namespace qanat::tools::claims {

struct Figures {
  double tokens_per_second = 0;  // drawn, while somebody waits for a seat; in a closed loop, all the time
  double busy = 0;               // of the seats, those with something to compute, weighted by time
  double kv_use = 0;             // live token slots / reserved ones, weighted by time
  double saved = 0;              // of the blocks in tables, those that others hold as well, by time
  double ttft_seconds = 0;       // mean
  double tpot_seconds = 0;       // time after the first token / tokens after it, over all requests
};

// What a run tells about its device.
struct Timings {
  std::map<int, std::vector<double>> step_seconds;  // of steps that only decode, by sequences
  double prompt_seconds = 0;                        // a request, beside the decodes of its steps
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
  int32_t vocabulary = 0;
};

// INTERNAL as RunWorkload.
absl::StatusOr<Measured> MeasureMode(const Scenario& scenario, const Mode& mode, const Bed& bed);

// Steps of runs of one scenario, together. Padded runs are left out: their rows are not all real.
class StepTimes {
 public:
  void Add(const Timings& timings);
  // The median, or a value between those of the nearest numbers of sequences. REQUIRES: some were added.
  double operator()(int sequences) const;

 private:
  std::map<int, std::vector<double>> seconds_;
};

// Of the prompts' tokens, those that a prefix cache leaves to compute: each group's text once.
double ComputedShare(const Scenario& scenario);

// What a run should give, by the closed forms of its mode with these step and prompt times. Figures that
// there is no form for are negative.
Figures Expect(const Scenario& scenario, const Mode& mode, const StepTimes& steps, double prompt_seconds);

}  // namespace qanat::tools::claims
