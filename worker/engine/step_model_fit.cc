#include "worker/engine/step_model_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace qanat::engine {
namespace {

// Longer than that many times the prediction is no more news than that.
constexpr double kClip = 4;
// Relative errors up to this count by their square, larger ones by themselves (Huber).
constexpr double kHuber = 0.25;
// Pulls towards the model before, in parts of a coefficient's own information. It decides only what the steps
// leave open, and fades: each fit begins where the last one ended.
constexpr double kRidge = 1e-5;
constexpr int kAlternations = 4;
constexpr int kRounds = 8;
constexpr double kNoKnee = std::numeric_limits<double>::infinity();

constexpr int kNumCoefficients = 6;
using Vector = std::array<double, kNumCoefficients>;
using Matrix = std::array<Vector, kNumCoefficients>;
// In Vector, in this order.
enum Coefficient : int { kFixed, kSequence, kWeights, kToken, kContext, kAttention };

Vector ToVector(const StepModel& m) {
  return {m.fixed_us, m.sequence_us, m.weights_us, m.token_us, m.context_us, m.attention_us};
}

StepModel ToModel(const Vector& v) {
  return {v[kFixed], v[kSequence], v[kWeights], v[kToken], v[kContext], v[kAttention]};
}

Vector Features(const StepShape& shape, bool above) {
  const auto tokens = static_cast<double>(shape.tokens);
  return {1,
          static_cast<double>(shape.sequences),
          above ? 0.0 : 1.0,
          above ? tokens : 0.0,
          static_cast<double>(shape.context_tokens),
          static_cast<double>(shape.chunk_attention)};
}

// Solves a * x = b for the coordinates in `active`, the others being 0, by Cholesky's decomposition.
// REQUIRES: a is symmetric and positive definite on them.
Vector SolveActive(const Matrix& a, const Vector& b, const std::vector<int>& active) {
  const size_t n = active.size();
  Matrix l{};
  Vector y{}, x{};
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[active[i]][active[j]];
      for (size_t k = 0; k < j; ++k) sum -= l[i][k] * l[j][k];
      l[i][j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / l[j][j];
    }
    double sum = b[active[i]];
    for (size_t k = 0; k < i; ++k) sum -= l[i][k] * y[k];
    y[i] = sum / l[i][i];
  }
  for (size_t i = n; i-- > 0;) {
    double sum = y[i];
    for (size_t k = i + 1; k < n; ++k) sum -= l[k][i] * x[active[k]];
    x[active[i]] = sum / l[i][i];
  }
  return x;
}

// As SolveActive, with no coordinate below 0: gives up the most negative one until none is.
Vector SolveNonNegative(const Matrix& a, const Vector& b, std::vector<int> active) {
  while (true) {
    const Vector x = SolveActive(a, b, active);
    const auto least =
        std::min_element(active.begin(), active.end(), [&](int i, int j) { return x[i] < x[j]; });
    if (least == active.end() || x[*least] >= 0) return x;
    active.erase(least);
  }
}

StepModel Solve(const std::vector<FitRow>& rows, const StepModel& before, double knee_tokens) {
  Matrix a{};
  Vector b{};
  int64_t most_tokens = 1;
  for (const FitRow& row : rows) {
    const Vector x = Features(*row.shape, static_cast<double>(row.shape->tokens) >= knee_tokens);
    most_tokens = std::max(most_tokens, row.shape->tokens);
    for (int i = 0; i < kNumCoefficients; ++i) {
      if (x[i] == 0) continue;
      const double weighted = row.weight * x[i];
      b[i] += weighted * row.us;
      for (int j = 0; j <= i; ++j) a[i][j] += weighted * x[j];
    }
  }
  // In units in which each coefficient's own information is 1.
  const Vector near = ToVector(before);
  std::vector<int> active;
  Vector unit{};
  for (int i = 0; i < kNumCoefficients; ++i) {
    if (a[i][i] <= 0) continue;
    active.push_back(i);
    unit[i] = 1 / std::sqrt(a[i][i]);
  }
  for (const int i : active) {
    for (int j = 0; j <= i; ++j) a[i][j] = a[j][i] = a[i][j] * unit[i] * unit[j];
    b[i] = b[i] * unit[i] + kRidge * near[i] / unit[i];
    a[i][i] += kRidge;
  }
  Vector fitted = SolveNonNegative(a, b, active);
  for (const int i : active) fitted[i] *= unit[i];
  // Nothing is on this side of the knee. Tokens cost at most what hides them behind the weights.
  if (unit[kToken] == 0) fitted[kToken] = fitted[kWeights] / static_cast<double>(most_tokens);
  return ToModel(fitted);
}

// From `knee` on, to where it stands still.
StepModel FitFrom(const std::vector<FitRow>& rows, const StepModel& before, double knee) {
  StepModel model;
  for (int i = 0; i < kAlternations; ++i) {
    model = Solve(rows, before, knee);
    const double next = KneeOf(model);
    if (next == knee) break;
    knee = next;
  }
  return model;
}

double Microseconds(Duration took) { return std::chrono::duration<double, std::micro>(took).count(); }

bool Teaches(const MeasuredStep& step) { return step.shape.tokens > 0 && step.took > Duration::zero(); }

}  // namespace

FitRow RowOf(const StepShape& shape, double us, double weight, const StepModel& model) {
  FitRow row{&shape, us, weight};
  double scale = us;
  if (model != StepModel{}) {
    const double predicted = std::max(model.PredictUs(shape), 1e-3);
    row.us = std::min(us, kClip * predicted);
    const double error = std::abs(row.us - predicted) / predicted;
    if (error > kHuber) row.weight *= kHuber / error;
    // Not by what it took: slow steps would count less than quick ones, and the fit would come out too quick.
    scale = predicted;
  }
  row.weight /= scale * scale;
  return row;
}

StepModel FitRows(const std::vector<FitRow>& rows, const StepModel& before, absl::Span<const double> knees) {
  double least = std::numeric_limits<double>::infinity();
  StepModel best = before;
  for (const double knee : knees) {
    const StepModel model = FitFrom(rows, before, knee);
    double loss = 0;
    for (const FitRow& row : rows) {
      const double error = row.us - model.PredictUs(*row.shape);
      loss += row.weight * error * error;
    }
    if (loss >= least) continue;
    least = loss;
    best = model;
  }
  return best;
}

double KneeOf(const StepModel& model) {
  return model.token_us > 0 ? model.weights_us / model.token_us : kNoKnee;
}

absl::Span<const double> StartingKnees() {
  static constexpr std::array<double, 5> kStarts = {32, 128, 8, 512, kNoKnee};
  return kStarts;
}

StepModel FitStepModel(absl::Span<const MeasuredStep> steps) {
  StepModel model;
  // Each round sees better which steps were disturbed.
  for (int round = 0; round < kRounds; ++round) {
    std::vector<FitRow> rows;
    for (const MeasuredStep& step : steps) {
      if (Teaches(step)) rows.push_back(RowOf(step.shape, Microseconds(step.took), 1, model));
    }
    if (rows.empty()) break;
    model = FitRows(rows, model, StartingKnees());
  }
  return model;
}

std::vector<double> RelativeErrors(const StepModel& model, absl::Span<const MeasuredStep> steps) {
  std::vector<double> errors;
  for (const MeasuredStep& step : steps) {
    if (!Teaches(step)) continue;
    errors.push_back(std::abs(model.PredictUs(step.shape) / Microseconds(step.took) - 1));
  }
  return errors;
}

}  // namespace qanat::engine
