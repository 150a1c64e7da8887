#include "worker/model/rope.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/base/check.h"

namespace qanat::model {
namespace {

constexpr double kTwoPi = 6.283185307179586476925;
// ln 2 in two parts: the first has 20 trailing zero bits, so that k * kLn2High is exact for |k| < 2^20.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kLog2E = 1.442695040888963407360;

// 2^k for -1022 <= k <= 1023.
double PowerOfTwo(int k) {
  const uint64_t bits = static_cast<uint64_t>(k + 1023) << 52;
  double power;
  std::memcpy(&power, &bits, sizeof(power));
  return power;
}

}  // namespace

namespace internal {

double Exp(double y) {
  const double k = std::rint(y * kLog2E);
  const double r = (y - k * kLn2High) - k * kLn2Low;
  // Taylor: |r| <= 0.35, so that the first term left out is below 0.35^15 / 15! = 1e-19.
  double sum = 1;
  for (int n = 14; n >= 1; --n) sum = 1 + sum * r / n;
  return sum * PowerOfTwo(static_cast<int>(k));
}

double Log(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = x / PowerOfTwo(exponent);
  if (mantissa > 1.4142135623730951) {
    mantissa /= 2;
    ++exponent;
  }
  // ln m = 2 artanh z, z = (m - 1) / (m + 1), |z| <= 0.1716: the first term left out is below 1e-19.
  const double z = (mantissa - 1) / (mantissa + 1);
  const double z2 = z * z;
  double sum = 0;
  for (int n = 23; n >= 1; n -= 2) sum = sum * z2 + 1.0 / n;
  return exponent * kLn2High + (exponent * kLn2Low + 2 * z * sum);
}

void CosSinOfTurns(double turns, double& cos, double& sin) {
  const double fraction = turns - std::rint(turns);  // exact
  const double quarter = std::rint(4 * fraction);    // -2 .. 2
  const double angle = (fraction - quarter / 4) * kTwoPi;
  // Taylor on [-pi/4, pi/4]: the first terms left out are below 1e-17.
  const double a2 = angle * angle;
  double c = 1;
  double s = 1;
  for (int n = 16; n >= 2; n -= 2) {
    c = 1 - c * a2 / (n * (n - 1));
    s = 1 - s * a2 / (n * (n + 1));
  }
  s *= angle;
  switch (static_cast<int>(quarter) & 3) {
    case 0:
      cos = c, sin = s;
      break;
    case 1:
      cos = -s, sin = c;
      break;
    case 2:
      cos = -c, sin = -s;
      break;
    default:
      cos = s, sin = -c;
      break;
  }
}

}  // namespace internal

namespace {

// The pair of a head, as a real number, that turns `turns` times within the original context.
double PairThatTurns(double turns, double log_base, const RopeScaling& scaling, int head_dim) {
  const double log_ratio = internal::Log(scaling.original_context / (turns * kTwoPi));
  return head_dim * log_ratio / (2 * log_base);
}

// How much of each pair's own frequency yarn keeps.
std::vector<double> YarnWeights(double log_base, const RopeScaling& scaling, int head_dim) {
  const double first = std::floor(PairThatTurns(scaling.beta_fast, log_base, scaling, head_dim));
  const double last = std::ceil(PairThatTurns(scaling.beta_slow, log_base, scaling, head_dim));
  const double low = first < 0 ? 0 : first;
  const double high = last > head_dim - 1 ? head_dim - 1 : last;
  const double width = high - low > 0.001 ? high - low : 0.001;
  std::vector<double> weights(head_dim / 2);
  for (int i = 0; i < head_dim / 2; ++i) {
    const double ramp = (i - low) / width;
    weights[i] = ramp < 0 ? 1 : ramp > 1 ? 0 : 1 - ramp;
  }
  return weights;
}

// Frequencies in turns a position: reducing an angle is then exact.
std::vector<double> TurnsOf(double base, const RopeScaling& scaling, absl::Span<const float> divisors,
                            int head_dim) {
  const double log_base = internal::Log(base);
  std::vector<double> kept(head_dim / 2, 0.0);
  if (scaling.kind == RopeScaling::Kind::kNone) kept.assign(head_dim / 2, 1.0);
  if (scaling.kind == RopeScaling::Kind::kYarn) kept = YarnWeights(log_base, scaling, head_dim);
  std::vector<double> turns(head_dim / 2);
  for (int i = 0; i < head_dim / 2; ++i) {
    turns[i] = internal::Exp(-2.0 * i / head_dim * log_base) / kTwoPi;
    if (!divisors.empty()) turns[i] /= divisors[i];
    if (kept[i] != 1) turns[i] = turns[i] * kept[i] + turns[i] / scaling.factor * (1 - kept[i]);
  }
  return turns;
}

}  // namespace

RopeTable MakeRopeTable(double base, const RopeScaling& scaling, absl::Span<const float> divisors,
                        int head_dim, int max_positions) {
  QANAT_CHECK(base > 1 && head_dim > 0 && head_dim % 2 == 0 && max_positions > 0);
  const int half = head_dim / 2;
  QANAT_CHECK(divisors.empty() || static_cast<int>(divisors.size()) == half);
  const std::vector<double> turns = TurnsOf(base, scaling, divisors, head_dim);
  double magnitude = 1;
  if (scaling.kind == RopeScaling::Kind::kYarn) {
    magnitude = scaling.attention_factor * (1 + 0.1 * internal::Log(scaling.factor));
  }
  RopeTable table;
  table.cos.resize(static_cast<size_t>(max_positions) * half);
  table.sin.resize(table.cos.size());
  size_t at = 0;
  for (int position = 0; position < max_positions; ++position) {
    for (int i = 0; i < half; ++i, ++at) {
      double cos = 0;
      double sin = 0;
      internal::CosSinOfTurns(position * turns[i], cos, sin);
      table.cos[at] = static_cast<float>(cos * magnitude);
      table.sin[at] = static_cast<float>(sin * magnitude);
    }
  }
  return table;
}

}  // namespace qanat::model
