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

void Average(std::atomic<int64_t>& average, int64_t sample) {
  const int64_t before = average.load(std::memory_order_relaxed);
  average.store(before == 0 ? sample : before + (sample - before) / kWeight, std::memory_order_relaxed);
}

}  // namespace

void DrainEstimate::OnStep(Duration took, int32_t started, int32_t waiting) {
  backlogged_ += took;
  if (started > 0) Average(interval_ns_, backlogged_.count() / started);
  // Nobody waits: what passes from now on says nothing about how fast the queue moves.
  if (started > 0 || waiting == 0) backlogged_ = Duration::zero();
}

void DrainEstimate::OnEnd(Duration service, int32_t output_tokens) {
  Average(token_ns_, service.count() / output_tokens);
  const int64_t tokens = kPerToken * output_tokens;
  Average(mean_tokens_, tokens);
  Average(deviation_tokens_, std::abs(tokens - mean_tokens_.load(std::memory_order_relaxed)));
}

Duration DrainEstimate::Service(int32_t max_tokens) const {
  const int64_t most = mean_tokens_.load(std::memory_order_relaxed) +
                       kDeviations * deviation_tokens_.load(std::memory_order_relaxed);
  const int64_t tokens = std::min(kPerToken * max_tokens, most);
  return Duration(token_ns_.load(std::memory_order_relaxed) * tokens / kPerToken);
}

}  // namespace qanat::engine
