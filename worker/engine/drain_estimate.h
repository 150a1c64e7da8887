// How fast the queue empties, and how long what has started takes: what a deadline is judged by before
// anything is computed.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/base/clock.h"

namespace qanat::engine {

// What: moving averages over what happened lately. Knows nothing at first and then predicts zero, so that
// nobody is turned away on no evidence. Owns nothing. Threads: OnStep and OnEnd are the engine thread's, the
// rest any. Errors: none.
class DrainEstimate {
 public:
  // A step took so long; `started` requests left the queue in it, and `waiting` wait still.
  void OnStep(Duration took, int32_t started, int32_t waiting);
  // A request took `prefill` from its start to its first token, and `decode` from there to its last, the
  // `output_tokens`-th. REQUIRES: output_tokens > 0.
  void OnEnd(Duration prefill, Duration decode, int32_t output_tokens);

  // Until a request starts that has `waiting` others before it.
  Duration Wait(int32_t waiting) const {
    return waiting * Duration(interval_ns_.load(std::memory_order_relaxed));
  }
  // From its start to its end, if it may make `max_tokens` tokens: as many as that, or as most requests make.
  Duration Service(int32_t max_tokens) const;

 private:
  // The engine thread's: time since a request last left a queue that was never empty meanwhile.
  Duration backlogged_{};
  // And of requests with more than one token: how long decode takes, and for how many tokens. Not the mean of
  // ratios, in which a short answer would count as much as a long one.
  int64_t decode_ns_ = 0;
  int64_t further_tokens_ = 0;  // in 1/1024 of a token

  std::atomic<int64_t> interval_ns_ = 0;  // between two that leave the queue
  std::atomic<int64_t> prefill_ns_ = 0;
  std::atomic<int64_t> token_ns_ = 0;  // of decode, for each token of output but the first
  // Of outputs, in 1/1024 of a token: the mean, and the mean deviation from it.
  std::atomic<int64_t> mean_tokens_ = 0;
  std::atomic<int64_t> deviation_tokens_ = 0;
};

}  // namespace qanat::engine
