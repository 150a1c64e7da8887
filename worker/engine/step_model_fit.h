// How a step model is fitted to steps that ran: by the engine while it runs, and to logs afterwards.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/step_model.h"
#include "worker/engine/step_log.h"

namespace qanat::engine {

// A step as the fit sees it. `shape` outlives it.
struct FitRow {
  const StepShape* shape;
  double us;
  double weight;  // in 1 / us^2
};

// A step that took `us`, so that relative errors count: least squares near `model`, and little for what took
// far longer than `model` predicts. Without a model yet (all 0) each counts alike.
FitRow RowOf(const StepShape& shape, double us, double weight, const StepModel& model);

// The model of least weighted squares with no coefficient below 0. What the rows leave open stays near
// `before`; without a row beyond the knee `token_us` is the most that still hides behind the weights.
//
// Given a knee, the tokens from which on they cost more than the weights, the formula is linear; so this
// alternates between coefficients and knee, beginning from each of `knees`, and keeps the best end, which is
// `before` when there are no rows.
StepModel FitRows(const std::vector<FitRow>& rows, const StepModel& before, absl::Span<const double> knees);

// The knee of `model`; infinite where tokens cost nothing.
double KneeOf(const StepModel& model);

// Knees to begin from when nothing is known.
absl::Span<const double> StartingKnees();

// Fits all steps of a log alike. Steps without tokens or duration teach nothing; with none left the model is
// all 0.
StepModel FitStepModel(absl::Span<const MeasuredStep> steps);

// |predicted - measured| / measured of each step that has tokens and duration.
std::vector<double> RelativeErrors(const StepModel& model, absl::Span<const MeasuredStep> steps);

}  // namespace qanat::engine
