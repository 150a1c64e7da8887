// The tables of rotary position embedding, the same bits on every machine.
#pragma once

#include <vector>

namespace qanat::model {

// [max_positions, half_head_dim] each.
struct RopeTable {
  std::vector<float> cos;
  std::vector<float> sin;
};

// cos and sin of position * base^(-2 i / head_dim). Only +, -, *, / and rint of IEEE doubles are used, and
// one rounding to float at the end, so that no maths library has a say; compiled without contraction. Against
// the exact values the angle is off by less than 1e-15 * position + 1e-15, far under float's resolution at
// any context length. REQUIRES: base >= 1; head_dim even and positive; max_positions > 0.
RopeTable MakeRopeTable(double base, int head_dim, int max_positions);

namespace internal {

// e^y for |y| <= 700, and ln x for normal x > 0: relative error below 1e-14.
double Exp(double y);
double Log(double x);
// cos and sin of `turns` * 2 pi: absolute error below 1e-15, for |turns| < 2^51.
void CosSinOfTurns(double turns, double& cos, double& sin);

}  // namespace internal
}  // namespace qanat::model
