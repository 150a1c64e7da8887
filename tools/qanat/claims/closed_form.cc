#include "tools/qanat/claims/closed_form.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "common/base/check.h"

namespace qanat::tools::claims {
namespace {

double LogChoose(int n, int k) { return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1); }

double Sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

// What a batch's rows compute and how long it takes, by rows still there. Contexts grow by a token a step, so
// that squares of lengths say how much of them there was.
Form BatchForm(const std::vector<int>& lengths, int n, const Costs& costs, bool padded) {
  std::vector<double> decodes, squares;
  for (const int length : lengths) {
    decodes.push_back(length - 1);
    squares.push_back((length - 1.0) * (length - 1.0));
  }
  const std::vector<double> batch = ExpectedBatch(decodes, n);
  const std::vector<double> batch_squares = ExpectedBatch(squares, n);
  const double prompts = n * costs.prompt_seconds;
  double seconds = prompts, decoding = 0, drawn = 0, shorter = 0, shorter_square = 0;
  for (int i = 0; i < n; ++i) {
    const int left = n - i;
    const double step = costs.step(padded ? n : left);
    seconds += (batch[i] - shorter) * step;
    decoding += (batch[i] - shorter) * step * left;
    drawn += (batch_squares[i] - shorter_square) / 2 * step * left;
    shorter = batch[i];
    shorter_square = batch_squares[i];
  }
  const double row_seconds = n * prompts + decoding;
  const double batches = static_cast<double>(lengths.size()) / n;
  return {.tokens_per_second = (Sum(batch) + n) / seconds,
          .seats = row_seconds / seconds,
          .drawn = drawn / row_seconds,
          .ttft_seconds = (batches - 1) / 2 * seconds + prompts,
          .tpot_seconds = decoding / Sum(batch)};
}

// Rows that run, by when they end.
class Seats {
 public:
  void EndUntil(int step) {
    for (; !rows_.empty() && rows_.top().first <= step; rows_.pop()) starts_ -= rows_.top().second;
  }
  void Take(int step, int length) {
    rows_.emplace(step + length, step);
    starts_ += step;
  }
  int taken() const { return static_cast<int>(rows_.size()); }
  double drawn(int step) const { return static_cast<double>(step) * taken() - starts_; }

 private:
  using Row = std::pair<int, int>;  // end, start
  std::priority_queue<Row, std::vector<Row>, std::greater<>> rows_;
  double starts_ = 0;
};

}  // namespace

// The k-th least of n is the i-th least of all when k - 1 of the n are among the i - 1 lesser ones and n - k
// among the greater ones.
std::vector<double> ExpectedBatch(std::vector<double> values, int n) {
  const auto all = static_cast<int>(values.size());
  QANAT_CHECK(n >= 1 && n <= all);
  std::sort(values.begin(), values.end());
  std::vector<double> batch(n);
  for (int k = 1; k <= n; ++k) {
    for (int i = k; i <= all - (n - k); ++i) {
      const double log = LogChoose(i - 1, k - 1) + LogChoose(all - i, n - k) - LogChoose(all, n);
      batch[k - 1] += std::exp(log) * values[i - 1];
    }
  }
  return batch;
}

Form PaddedForm(const std::vector<int>& lengths, int n, const Costs& costs) {
  return BatchForm(lengths, n, costs, true);
}

Form CompactedForm(const std::vector<int>& lengths, int n, const Costs& costs) {
  return BatchForm(lengths, n, costs, false);
}

Form ContinuousForm(const std::vector<int>& lengths, int n, const Costs& costs, bool to_the_end) {
  QANAT_CHECK(n >= 1 && n <= static_cast<int>(lengths.size()));
  Seats seats;
  size_t next = 0;
  double seconds = 0, row_seconds = 0, tokens = 0, drawn = 0, first = 0, decoding = 0, decoded = 0;
  for (int step = 0; next < lengths.size() || (to_the_end && seats.taken() > 0); ++step) {
    seats.EndUntil(step);
    const int decodes = seats.taken();
    int prompts = 0;
    for (; next < lengths.size() && seats.taken() < n && prompts < costs.prompts_at_once; ++prompts) {
      seats.Take(step, lengths[next++]);
    }
    const double took = (decodes > 0 ? costs.step(decodes) : 0) + prompts * costs.prompt_seconds;
    seconds += took;
    row_seconds += took * seats.taken();
    tokens += seats.taken();
    drawn += took * seats.drawn(step);
    first += prompts * seconds;
    decoding += took * decodes;
    decoded += decodes;
  }
  return {.tokens_per_second = tokens / seconds,
          .seats = row_seconds / seconds,
          .drawn = drawn / row_seconds,
          .ttft_seconds = first / static_cast<double>(lengths.size()),
          .tpot_seconds = decoding / decoded};
}

}  // namespace qanat::tools::claims
