#include "worker/service/live_generations.h"

#include <utility>
#include <vector>

#include "worker/service/generation.h"

namespace qanat::service {

void LiveGenerations::Add(const std::shared_ptr<Generation>& generation) {
  MutexLock lock(mu_);
  live_.emplace(generation.get(), generation);
}

void LiveGenerations::Remove(const Generation* generation) {
  {
    MutexLock lock(mu_);
    live_.erase(generation);
    if (!live_.empty()) return;
  }
  empty_.NotifyAll();
}

void LiveGenerations::ForEach(const std::function<void(Generation&)>& visit) {
  std::vector<std::shared_ptr<Generation>> generations;
  {
    MutexLock lock(mu_);
    for (const auto& [key, weak] : live_) {
      if (auto generation = weak.lock()) generations.push_back(std::move(generation));
    }
  }
  for (const auto& generation : generations) visit(*generation);
}

bool LiveGenerations::WaitUntilEmpty(Duration timeout, const Clock& clock) {
  const Time until = clock.Now() + timeout;
  MutexLock lock(mu_);
  while (!live_.empty()) {
    const Duration left = until - clock.Now();
    if (left <= Duration::zero()) return false;
    empty_.WaitFor(mu_, left);
  }
  return true;
}

}  // namespace qanat::service
