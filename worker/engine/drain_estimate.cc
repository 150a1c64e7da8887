#include "worker/engine/drain_estimate.h"

#include <algorithm>
#include <cstdlib>

namespace qanat::engine {
namespace {

// An average follows a change within some sixteen samples.
constexpr int64_t kWeight = 16;
constexpr int64_t kPerToken = 1024;
// Lengths of outputs lie below the mean and so many mean deviations nearly always: 97 % where they are
// exponential.
constexpr int64_t kDeviations = 3;

int64_t Averaged(int64_t before, int64_t sample) {
  return before == 0 ? sample : before + (sample - before) / kWeight;
}

void Average(std::atomic<int64_t>& average, int64_t sample) {
  average.store(Averaged(average.load(std::memory_order_relaxed), sample), std::memory_order_relaxed);
}

}  // namespace

void DrainEstimate::OnStep(Duration took, int32_t started, int32_t waiting) {
  backlogged_ += took;
  if (started > 0) Average(interval_ns_, backlogged_.count() / started);
  // Nobody waits: what passes from now on says nothing about how fast the queue moves.
  if (started > 0 || waiting == 0) backlogged_ = Duration::zero();
}

void DrainEstimate::OnEnd(Duration prefill, Duration decode, int32_t output_tokens) {
  Average(prefill_ns_, prefill.count());
  const int64_t tokens = kPerToken * output_tokens;
  if (output_tokens > 1) {
    decode_ns_ = Averaged(decode_ns_, decode.count());
    further_tokens_ = Averaged(further_tokens_, tokens - kPerToken);
    token_ns_.store(decode_ns_ * kPerToken / further_tokens_, std::memory_order_relaxed);
  }
  Average(mean_tokens_, tokens);
  Average(deviation_tokens_, std::abs(tokens - mean_tokens_.load(std::memory_order_relaxed)));
}

Duration DrainEstimate::Service(int32_t max_tokens) const {
  const int64_t most = mean_tokens_.load(std::memory_order_relaxed) +
                       kDeviations * deviation_tokens_.load(std::memory_order_relaxed);
  const int64_t further = std::max<int64_t>(0, std::min(kPerToken * max_tokens, most) - kPerToken);
  return Duration(prefill_ns_.load(std::memory_order_relaxed) +
                  token_ns_.load(std::memory_order_relaxed) * further / kPerToken);
}

}  // namespace qanat::engine
