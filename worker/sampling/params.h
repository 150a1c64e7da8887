// How a token is drawn from a row of logits. Plain data, validated by common/api before it gets here.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/ids.h"

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

// What changes a row of logits before the draw; logit_rules.h says how. The common request has none of it.
struct LogitRules {
  float repetition_penalty = 1.0f;              // (0, 10]; of tokens in the prompt or the output
  float presence_penalty = 0.0f;                // [-2, 2]; of tokens in the output
  float frequency_penalty = 0.0f;               // [-2, 2]; the same, as often as they are there
  std::vector<std::pair<TokenId, float>> bias;  // each id once, [-100, 100]
  std::vector<TokenId> allowed;                 // ascending, each id once; empty: all
  // These cannot be drawn at positions below min_tokens.
  std::vector<TokenId> late;
  int32_t min_tokens = 0;

  bool penalizes() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
  bool any() const { return penalizes() || !bias.empty() || !allowed.empty() || min_tokens > 0; }
};

// How often each token is in the output so far; with 0 the tokens that only the prompt holds.
using TokenCounts = absl::flat_hash_map<TokenId, int32_t>;

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;

  bool operator==(const TokenLogprob&) const = default;
};

// A token that came, and the most likely ones in its place, best first. scorer.h has the rule.
struct ScoredToken {
  TokenLogprob chosen;
  std::vector<TokenLogprob> likeliest;

  bool operator==(const ScoredToken&) const = default;
};

// Names one random number: the same key gives the same number on every machine, whatever else is served.
struct DrawKey {
  uint64_t seed = 0;
  uint32_t choice = 0;
  uint32_t position = 0;  // in the choice's output
};

}  // namespace qanat::sampling
