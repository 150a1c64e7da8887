// What is random in a workload: token ids, gaps between arrivals, lengths.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/ids.h"

namespace qanat::tools {

// Ids that no two prompts share in the same order, the same for the same seed on every machine.
class RandomTokens {
 public:
  // REQUIRES: vocabulary > 0.
  RandomTokens(uint64_t seed, int32_t vocabulary) : state_(seed), vocabulary_(vocabulary) {}
  std::vector<TokenId> Take(int count);
  // In [0, 1).
  double Uniform();
  // With mean `mean`.
  double Exponential(double mean);
  // Whose logarithm is normal: the median is `median`, and a part 0.84 is below median * spread.
  double LogNormal(double median, double spread);

 private:
  uint64_t Next();

  uint64_t state_;
  int32_t vocabulary_;
};

}  // namespace qanat::tools
