// How a token is drawn from a row of logits. Plain data, validated by common/api before it gets here.
#pragma once

#include <cstdint>

namespace qanat::sampling {

// Temperatures below this are greedy.
inline constexpr float kGreedyTemperature = 1e-5f;

struct Params {
  float temperature = 1.0f;  // [0, 2]
  int32_t top_k = 0;         // 0: off
  float top_p = 1.0f;        // (0, 1]
  float min_p = 0.0f;        // [0, 1]

  bool greedy() const { return temperature < kGreedyTemperature || top_k == 1; }
};

// Names one random number: the same key gives the same number on every machine, whatever else is served.
struct DrawKey {
  uint64_t seed = 0;
  uint32_t choice = 0;
  uint32_t position = 0;  // in the choice's output
};

}  // namespace qanat::sampling
