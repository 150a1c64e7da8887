// A step model fitted to logs, and how well it does on steps that it has not seen.
#pragma once

#include <cstddef>

#include "absl/types/span.h"
#include "common/base/step_model.h"
#include "worker/engine/step_log.h"

namespace qanat::tools {

struct StepFit {
  StepModel model;      // of all steps
  size_t steps = 0;     // that teach something: tokens and duration
  size_t held_out = 0;  // of these
  // |predicted - measured| / measured over the held out, by a model fitted to the others. 0: there are none.
  double median_error = 0;
  double mean_error = 0;
};

// Holds out every fifth of 25 stretches of consecutive steps: a step alone would lie between two that are
// nearly its twins.
StepFit FitHeldOut(absl::Span<const engine::MeasuredStep> steps);

}  // namespace qanat::tools
