// The closed forms of a scenario's modes, and what they take from its runs.
#pragma once

#include <map>

#include "tools/qanat/claims/measure_mode.h"
#include "tools/qanat/claims/scenario.h"

namespace qanat::tools::claims {

// What the device takes for a scenario: of all modes but the padded ones, whose rows are not all real, for
// steps; of one for prompts.
class Prices {
 public:
  // REQUIRES: `all` has steps that only decode, `reference` some with prompts.
  Prices(const Timings& all, const Timings& reference);

  // Seconds of a step in which so many decode: the median, or a value between those of the nearest numbers.
  double Step(int sequences) const;
  // Seconds of a token of a prompt, beside the decodes of its steps.
  double prompt_token() const { return prompt_token_; }

 private:
  std::map<int, double> steps_;
  double prompt_token_ = 0;
};

// Of the prompts' tokens, those that a prefix cache leaves to compute: each group's text once.
double ComputedShare(const Scenario& scenario);

// What a run should give, by the closed forms of its mode. Figures that there is no form for are negative.
// `max_batch_tokens`: of a step.
Figures Expect(const Scenario& scenario, const Mode& mode, const Prices& prices, int max_batch_tokens);

}  // namespace qanat::tools::claims
