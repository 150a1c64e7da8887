// Who is being served right now.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace qanat::service {

class Generation;

// What: the generations between their start and when their end has left, so that a worker that leaves can
// wait for them and, at its limit, end them. Owns nothing. Threads: any. Errors: none.
class LiveGenerations {
 public:
  void Add(const std::shared_ptr<Generation>& generation) EXCLUDES(mu_);
  void Remove(const Generation* generation) EXCLUDES(mu_);

  // Calls `visit` for each, outside the lock.
  void ForEach(const std::function<void(Generation&)>& visit) EXCLUDES(mu_);
  // False when some were left after `timeout`.
  bool WaitUntilEmpty(Duration timeout, const Clock& clock) EXCLUDES(mu_);

 private:
  Mutex mu_;
  CondVar empty_;
  std::unordered_map<const Generation*, std::weak_ptr<Generation>> live_ GUARDED_BY(mu_);
};

}  // namespace qanat::service
