// What arithmetic says a mode should give, from lengths and the time of a step alone: to stand beside what
// was measured.
#pragma once

#include <functional>
#include <vector>

namespace qanat::tools::claims {

// The expected lengths, ascending, of a batch of `n` drawn from `lengths` without putting any back. REQUIRES:
// 1 <= n <= lengths.size().
std::vector<double> ExpectedBatch(std::vector<int> lengths, int n);

// H_n: how many times the mean the longest of n exponential lengths is.
double Harmonic(int n);

// How long a step takes in which so many sequences decode.
using StepSeconds = std::function<double(int sequences)>;

// What a mode does with a batch of `n`, in the mean. Prompts are not in it.
struct BatchForm {
  double seconds = 0;       // until its last token
  double tokens = 0;        // that it drew
  double busy = 0;          // rows that had something to compute, of all n seats, weighted by time
  double step_seconds = 0;  // between two tokens of a row
};

// Rows that end leave a hole that is computed until the last one ends.
BatchForm PaddedForm(const std::vector<double>& batch, const StepSeconds& step);
// Rows that end are dropped: the sum over b of step(b) * (length of the b-th longest - that of the next).
// With exponential lengths that is mean * (sum over b of step(b) / b).
BatchForm CompactedForm(const std::vector<double>& batch, const StepSeconds& step);
// Another takes the place at once.
BatchForm ContinuousForm(const std::vector<double>& batch, const StepSeconds& step);

}  // namespace qanat::tools::claims
