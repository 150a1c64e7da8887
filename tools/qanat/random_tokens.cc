#include "tools/qanat/random_tokens.h"

#include <cmath>
#include <numbers>

namespace qanat::tools {

std::vector<TokenId> RandomTokens::Take(int count) {
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) {
    token = static_cast<TokenId>(Next() % static_cast<uint64_t>(vocabulary_));
  }
  return tokens;
}

double RandomTokens::Uniform() { return static_cast<double>(Next()) / 0x1p31; }

double RandomTokens::Exponential(double mean) { return -mean * std::log(1 - Uniform()); }

// Box and Muller's method.
double RandomTokens::LogNormal(double median, double spread) {
  const double radius = std::sqrt(-2 * std::log(1 - Uniform()));
  return median * std::pow(spread, radius * std::cos(2 * std::numbers::pi * Uniform()));
}

// Knuth's linear congruential generator, its better 31 bits.
uint64_t RandomTokens::Next() {
  state_ = state_ * 6364136223846793005u + 1442695040888963407u;
  return state_ >> 33;
}

}  // namespace qanat::tools
