#include "router/link/backoff.h"

#include <algorithm>

#include "common/base/check.h"

namespace qanat::router {

Backoff::Backoff(Duration first, Duration most, uint64_t seed)
    : first_(first), most_(most), bound_(first), random_(seed) {
  QANAT_CHECK(Duration::zero() < first && first <= most) << "a backoff from nothing never grows";
}

Duration Backoff::Next() {
  std::uniform_int_distribution<Duration::rep> between(bound_.count() / 2, bound_.count());
  const Duration delay(between(random_));
  bound_ = std::min(2 * bound_, most_);
  return delay;
}

}  // namespace qanat::router
