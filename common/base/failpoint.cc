#include "common/base/failpoint.h"

#if defined(QANAT_FAILPOINTS)

namespace qanat {

Failpoints& Failpoints::Get() {
  static Failpoints failpoints;
  return failpoints;
}

void Failpoints::Arm(std::string_view name, const Plan& plan) {
  MutexLock lock(mu_);
  armed_.insert_or_assign(std::string(name), Armed{plan, std::mt19937_64(plan.seed)});
}

void Failpoints::Disarm(std::string_view name) {
  MutexLock lock(mu_);
  if (const auto found = armed_.find(name); found != armed_.end()) armed_.erase(found);
}

bool Failpoints::Fires(std::string_view name) {
  MutexLock lock(mu_);
  const auto found = armed_.find(name);
  if (found == armed_.end()) return false;
  Armed& armed = found->second;
  const bool skipped = armed.passages++ < armed.plan.skip;
  const double draw = std::uniform_real_distribution<double>(0, 1)(armed.random);
  if (skipped || armed.fired >= armed.plan.times || draw >= armed.plan.probability) return false;
  ++armed.fired;
  return true;
}

int64_t Failpoints::fired(std::string_view name) const {
  MutexLock lock(mu_);
  const auto found = armed_.find(name);
  return found == armed_.end() ? 0 : found->second.fired;
}

}  // namespace qanat

#endif
