// What arithmetic says a mode should give, from the requests' lengths and from what a step and a prompt take:
// to stand beside what was measured. A length is the tokens that a request draws, of which the first comes
// with its prompt.
#pragma once

#include <functional>
#include <vector>

namespace qanat::tools::claims {

// The expected values, ascending, of a batch of `n` drawn from `values` without putting any back. REQUIRES:
// 1 <= n <= values.size().
std::vector<double> ExpectedBatch(std::vector<double> values, int n);

struct Costs {
  std::function<double(int sequences)> step;  // seconds of one in which so many decode
  double prompt_seconds = 0;                  // of a request, beside the decodes of its steps
  int prompts_at_once = 1;                    // that a step of a continuous mode has room for
};

struct Form {
  double tokens_per_second = 0;
  double seats = 0;         // of rows that have something to compute, weighted by time
  double drawn = 0;         // tokens that such a row has drawn, weighted by time
  double ttft_seconds = 0;  // mean
  double tpot_seconds = 0;  // time after the first token / tokens after it
};

// Whole batches of `n` in the mean over all orders of the lengths. Rows that end leave a hole that is
// computed until the last one ends: a batch takes its longest length times step(n). REQUIRES: 1 <= n <=
// lengths.size().
Form PaddedForm(const std::vector<int>& lengths, int n, const Costs& costs);
// Rows that end are dropped: the sum over b of step(b) * (length of the b-th longest - that of the next).
// With exponential lengths that is mean * (sum over b of step(b) / b).
Form CompactedForm(const std::vector<int>& lengths, int n, const Costs& costs);
// The next in order takes a seat at once, so that all steps are of n rows, until the last one is admitted;
// `to_the_end`: until all have ended. REQUIRES: as PaddedForm.
Form ContinuousForm(const std::vector<int>& lengths, int n, const Costs& costs, bool to_the_end);

}  // namespace qanat::tools::claims
