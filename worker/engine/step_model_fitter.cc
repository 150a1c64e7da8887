#include "worker/engine/step_model_fitter.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "worker/engine/step_model_fit.h"

namespace qanat::engine {

void StepModelFitter::Add(const StepShape& shape, Duration took) {
  if (shape.tokens <= 0 || took <= Duration::zero()) return;
  const int size =
      std::min(static_cast<int>(std::bit_width(static_cast<uint64_t>(shape.tokens))) - 1, kSizes - 1);
  const int context = std::min(
      static_cast<int>(std::bit_width(static_cast<uint64_t>(shape.context_tokens))) / 2, kContexts - 1);
  Class& home = classes_[size * kContexts + context];
  const Sample sample{shape, std::chrono::duration<double, std::micro>(took).count(), steps_};
  if (home.samples.size() < kPerClass) {
    home.samples.push_back(sample);
  } else {
    home.samples[home.oldest] = sample;
    home.oldest = (home.oldest + 1) % kPerClass;
  }
  ++steps_;
  const bool news = steps_ > kRefitEvery && home.samples.size() <= kNews;
  if (news || steps_ % kRefitEvery == 0) Refit();
}

void StepModelFitter::Refit() {
  std::vector<FitRow> rows;
  for (const Class& home : classes_) {
    for (const Sample& sample : home.samples) {
      const double age = std::exp2(static_cast<double>(sample.step - steps_) / kHalfLife);
      rows.push_back(RowOf(sample.shape, sample.us, age, model_));
    }
  }
  // The alternation finds the knee from nearby: hence another beginning each time.
  const absl::Span<const double> starts = StartingKnees();
  const std::array<double, 2> knees = {KneeOf(model_), starts[next_start_++ % starts.size()]};
  model_ = FitRows(rows, model_, knees);
}

}  // namespace qanat::engine
