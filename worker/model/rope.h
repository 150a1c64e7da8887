// The tables of rotary position embedding, the same bits on every machine.
#pragma once

#include <vector>

#include "absl/types/span.h"

namespace qanat::model {

// How a model reaches further than the positions it was first trained on. With f the frequencies
// base^(-2 i / head_dim), each divided by its divisor where the file has rope_freqs.weight ("llama3"
// scaling):
//   linear   f / factor
//   yarn     f * w + f / factor * (1 - w); w falls from 1 to 0 between the pairs that turn beta_fast and
//            beta_slow times within original_context. cos and sin are multiplied by
//            attention_factor * (1 + 0.1 ln factor).
// (Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models", 2023; the ends of the
// ramp are rounded outwards and 0.001 apart at least, as the common runtimes do.)
struct RopeScaling {
  enum class Kind { kNone, kLinear, kYarn };
  Kind kind = Kind::kNone;
  double factor = 1;
  // Of yarn.
  int original_context = 0;
  double attention_factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
};

// [max_positions, half_head_dim] each.
struct RopeTable {
  std::vector<float> cos;
  std::vector<float> sin;
};

// cos and sin of position * frequency, scaled. Only +, -, *, / and rint of IEEE doubles are used, and
// one rounding to float at the end, so that no maths library has a say; compiled without contraction. Against
// the exact values the angle is off by less than 1e-15 * position + 1e-15, far under float's resolution at
// any context length. `divisors` are [head_dim / 2], positive normal numbers; none: 1. REQUIRES: base > 1;
// head_dim even and positive; max_positions > 0; numbers of `scaling` positive.
RopeTable MakeRopeTable(double base, const RopeScaling& scaling, absl::Span<const float> divisors,
                        int head_dim, int max_positions);

namespace internal {

// e^y for |y| <= 700, and ln x for normal x > 0: relative error below 1e-14.
double Exp(double y);
double Log(double x);
// cos and sin of `turns` * 2 pi: absolute error below 1e-15, for |turns| < 2^51.
void CosSinOfTurns(double turns, double& cos, double& sin);

}  // namespace internal
}  // namespace qanat::model
