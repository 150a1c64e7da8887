#include "tools/qanat/claims/closed_form.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/check.h"

namespace qanat::tools::claims {
namespace {

double LogChoose(int n, int k) { return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1); }

double Sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

// The k-th shortest of n is the i-th shortest of all when k - 1 of the n are among the i - 1 shorter ones and
// n - k among the longer ones.
std::vector<double> ExpectedBatch(std::vector<int> lengths, int n) {
  const auto all = static_cast<int>(lengths.size());
  QANAT_CHECK(n >= 1 && n <= all);
  std::sort(lengths.begin(), lengths.end());
  std::vector<double> batch(n);
  for (int k = 1; k <= n; ++k) {
    for (int i = k; i <= all - (n - k); ++i) {
      const double log = LogChoose(i - 1, k - 1) + LogChoose(all - i, n - k) - LogChoose(all, n);
      batch[k - 1] += std::exp(log) * lengths[i - 1];
    }
  }
  return batch;
}

double Harmonic(int n) {
  double sum = 0;
  for (int i = 1; i <= n; ++i) sum += 1.0 / i;
  return sum;
}

BatchForm PaddedForm(const std::vector<double>& batch, const StepSeconds& step) {
  const auto n = static_cast<int>(batch.size());
  BatchForm form;
  form.tokens = Sum(batch);
  form.step_seconds = step(n);
  form.seconds = batch.back() * form.step_seconds;
  form.busy = form.tokens / (n * batch.back());
  return form;
}

BatchForm CompactedForm(const std::vector<double>& batch, const StepSeconds& step) {
  const auto n = static_cast<int>(batch.size());
  BatchForm form;
  form.tokens = Sum(batch);
  double shorter = 0;
  double row_seconds = 0;
  for (int i = 0; i < n; ++i) {
    const int left = n - i;
    const double seconds = (batch[i] - shorter) * step(left);
    form.seconds += seconds;
    row_seconds += seconds * left;
    shorter = batch[i];
  }
  form.busy = row_seconds / (n * form.seconds);
  form.step_seconds = row_seconds / form.tokens;
  return form;
}

BatchForm ContinuousForm(const std::vector<double>& batch, const StepSeconds& step) {
  const auto n = static_cast<int>(batch.size());
  BatchForm form;
  form.tokens = Sum(batch);
  form.step_seconds = step(n);
  form.seconds = form.tokens / n * form.step_seconds;
  form.busy = 1;
  return form;
}

}  // namespace qanat::tools::claims
