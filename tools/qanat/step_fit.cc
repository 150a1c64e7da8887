#include "tools/qanat/step_fit.h"

#include <numeric>
#include <vector>

#include "tools/qanat/measure.h"
#include "worker/engine/step_model_fit.h"

namespace qanat::tools {
namespace {

constexpr size_t kStretches = 25;

}  // namespace

StepFit FitHeldOut(absl::Span<const engine::MeasuredStep> steps) {
  std::vector<engine::MeasuredStep> seen, unseen;
  for (size_t i = 0; i < steps.size(); ++i) {
    const size_t stretch = i * kStretches / steps.size();
    (stretch % 5 == 4 ? unseen : seen).push_back(steps[i]);
  }
  StepFit fit{.model = engine::FitStepModel(steps)};
  const std::vector<double> errors = engine::RelativeErrors(engine::FitStepModel(seen), unseen);
  fit.held_out = errors.size();
  fit.steps = engine::RelativeErrors(fit.model, steps).size();
  if (errors.empty()) return fit;
  fit.median_error = Median(errors);
  fit.mean_error = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  return fit;
}

}  // namespace qanat::tools
