// The one random number of a draw: a function of its key alone, so that batching, preemption and resuming
// change nothing.
#pragma once

#include <array>
#include <cstdint>

#include "worker/sampling/params.h"

namespace qanat::sampling {

// Philox 4x32 with 10 rounds (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// 2011): a bijection of the counter for each key, good enough that consecutive counters are independent in
// every known test.
constexpr std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// 64 bits: key = seed, counter = (position, choice, 0, 0).
constexpr uint64_t RandomBits(const DrawKey& draw) {
  const std::array<uint32_t, 4> words =
      Philox({draw.position, draw.choice, 0, 0},
             {static_cast<uint32_t>(draw.seed), static_cast<uint32_t>(draw.seed >> 32)});
  return words[0] | uint64_t{words[1]} << 32;
}

}  // namespace qanat::sampling
