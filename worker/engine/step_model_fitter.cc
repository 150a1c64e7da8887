#include "worker/engine/step_model_fitter.h"

#include <algorithm>
#include <bit>
#include <cmath>
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

double KneeOf(const StepModel& model) {
  return model.token_us > 0 ? model.weights_us / model.token_us : kNoKnee;
}

}  // namespace

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

std::vector<StepModelFitter::Row> StepModelFitter::Rows() const {
  const bool fitted = model_ != StepModel{};
  std::vector<Row> rows;
  for (const Class& home : classes_) {
    for (const Sample& sample : home.samples) {
      Row row{&sample.shape, sample.us, std::exp2(static_cast<double>(sample.step - steps_) / kHalfLife)};
      double scale = row.us;
      if (fitted) {
        const double predicted = std::max(model_.PredictUs(sample.shape), 1e-3);
        row.us = std::min(row.us, kClip * predicted);
        const double error = std::abs(row.us - predicted) / predicted;
        if (error > kHuber) row.weight *= kHuber / error;
        scale = std::max(row.us, predicted);
      }
      row.weight /= scale * scale;
      rows.push_back(row);
    }
  }
  return rows;
}

void StepModelFitter::Refit() {
  const std::vector<Row> rows = Rows();
  double least = kNoKnee;
  StepModel best = model_;
  // The alternation finds the knee from nearby: hence another beginning each time.
  constexpr std::array<double, 5> kStarts = {32, 128, 8, 512, kNoKnee};
  for (const double knee : {KneeOf(model_), kStarts[next_start_++ % kStarts.size()]}) {
    const StepModel model = FitFrom(rows, knee);
    double loss = 0;
    for (const Row& row : rows) {
      const double error = row.us - model.PredictUs(*row.shape);
      loss += row.weight * error * error;
    }
    if (loss >= least) continue;
    least = loss;
    best = model;
  }
  model_ = best;
}

StepModel StepModelFitter::FitFrom(const std::vector<Row>& rows, double knee_tokens) const {
  StepModel model;
  for (int i = 0; i < kAlternations; ++i) {
    model = Solve(rows, knee_tokens);
    const double knee = KneeOf(model);
    if (knee == knee_tokens) break;
    knee_tokens = knee;
  }
  return model;
}

StepModel StepModelFitter::Solve(const std::vector<Row>& rows, double knee_tokens) const {
  Matrix a{};
  Vector b{};
  int64_t most_tokens = 1;
  for (const Row& row : rows) {
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
  const Vector before = ToVector(model_);
  std::vector<int> active;
  Vector unit{};
  for (int i = 0; i < kNumCoefficients; ++i) {
    if (a[i][i] <= 0) continue;
    active.push_back(i);
    unit[i] = 1 / std::sqrt(a[i][i]);
  }
  for (const int i : active) {
    for (int j = 0; j <= i; ++j) a[i][j] = a[j][i] = a[i][j] * unit[i] * unit[j];
    b[i] = b[i] * unit[i] + kRidge * before[i] / unit[i];
    a[i][i] += kRidge;
  }
  Vector fitted = SolveNonNegative(a, b, active);
  for (const int i : active) fitted[i] *= unit[i];
  // Nothing is on this side of the knee. Tokens cost at most what hides them behind the weights.
  if (unit[kToken] == 0) fitted[kToken] = fitted[kWeights] / static_cast<double>(most_tokens);
  return ToModel(fitted);
}

}  // namespace qanat::engine
