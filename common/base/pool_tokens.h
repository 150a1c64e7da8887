// How much of a KV pool a request may take: the one formula by which the router looks for a worker that can
// hold it, and by which that worker lets it in. A router takes prompts to be shared; a worker without a
// prefix cache, which is there to compare with, shares none and may refuse more.
#pragma once

#include <cstdint>

namespace qanat {

struct PoolDemand {
  int64_t prompt = 0;   // tokens
  int64_t output = 0;   // tokens of a choice, at most
  int64_t choices = 1;  // of the one prompt
};

// In tokens, of a pool of whole blocks. Every choice but the first takes blocks of its own: those behind the
// full blocks before the prompt's last token, which all share; or all of them where prompts are not shared.
// REQUIRES: prompt >= 1, choices >= 1.
inline int64_t PoolTokens(const PoolDemand& demand, int64_t block_size, bool share_prompt = true) {
  const int64_t total = demand.prompt + demand.output;
  const int64_t shared = share_prompt ? (demand.prompt - 1) / block_size : 0;
  const int64_t tail = (total + block_size - 1) / block_size - shared;
  return total + (demand.choices - 1) * tail * block_size;
}

}  // namespace qanat
