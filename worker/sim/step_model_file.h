// A step model as a file: what `qanat bench fit --out` writes and simulations read.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/base/step_model.h"

namespace qanat::sim {

// One JSON object with the coefficients of StepModel by name, in microseconds.
std::string ToJson(const StepModel& model);

// NOT_FOUND when the file cannot be read; INVALID_ARGUMENT, naming file and key, unless it holds every
// coefficient, none negative, not all 0. Other keys are ignored: they tell where the model comes from.
absl::StatusOr<StepModel> ReadStepModel(const std::string& path);

}  // namespace qanat::sim
