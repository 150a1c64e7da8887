// A workload as data, and what runs it through an engine in this process: on a real model by the machine's
// clock, or on a simulated device in virtual time, which is then the same run without the waiting.
//
//   VirtualClock clock;
//   sim::SimModelRunner runner({.device = model, .vocabulary = 49152}, clock);
//   QANAT_ASSIGN_OR_RETURN(WorkloadResult result, RunWorkload(workload, engine_options, runner, clock));
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "worker/engine/engine.h"
#include "worker/engine/step_log.h"

namespace qanat::tools {

struct WorkloadRequest {
  Duration arrival{};  // after the start; ignored in a closed loop
  std::vector<TokenId> prompt;
  int32_t max_tokens = 0;  // all of which are drawn, unless
  int32_t ends_after = 0;  // so many are, and a stop string is then found in them; 0: never
  engine::Priority priority = engine::Priority::kStandard;
};

struct Workload {
  std::string name;
  std::vector<WorkloadRequest> requests;  // in order of arrival
  // 0: an open loop, each request comes when it is due. Else a closed one: so many are open at once, and the
  // next comes when one ends.
  int concurrency = 0;
};

// What became of a request. Times count from the start of the run.
struct RequestTimes {
  Duration arrival{};           // due, in an open loop; submitted, in a closed one
  std::vector<Duration> drawn;  // when each token came; none: refused at the door
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;
  int32_t preemptions = 0;

  bool refused() const { return drawn.empty(); }
  // REQUIRES: !refused().
  Duration first() const { return drawn.front(); }
  Duration last() const { return drawn.back(); }
  double ttft_seconds() const { return Seconds(first() - arrival); }
  // REQUIRES: two tokens.
  double tpot_seconds() const { return Seconds(last() - first()) / static_cast<double>(drawn.size() - 1); }
};

struct WorkloadResult {
  std::vector<RequestTimes> requests;  // parallel to Workload::requests
  std::vector<engine::MeasuredStep> steps;
  Duration span{};  // from the start to the last token

  int64_t completion_tokens() const;
  // Prompt tokens, cached ones included, and drawn ones, of all that were not refused.
  int64_t total_tokens() const;
};

// Told after each step, before the next: for what is weighted by time, such as the use of blocks.
using StepObserver = std::function<void(const engine::Engine& engine, const engine::StepStats& stats)>;

// Runs all of it through a new engine, greedy, without end tokens. INTERNAL when a request that was accepted
// does not run to its end. The options' num_blocks are the runner's. REQUIRES: the workload's prompts fit the
// context.
absl::StatusOr<WorkloadResult> RunWorkload(const Workload& workload, const engine::EngineOptions& options,
                                           engine::ModelRunner& runner, WaitableClock& clock,
                                           const StepObserver& observer = nullptr);

}  // namespace qanat::tools
