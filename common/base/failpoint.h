// Faults that tests inject. Where QANAT_FAILPOINTS is not defined (release) a failpoint is the constant false
// and none of this is compiled.
//
//   if (QANAT_FAILPOINT("watch.drop_frame")) return;
#pragma once

#if defined(QANAT_FAILPOINTS)

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>

#include "common/base/mutex.h"

namespace qanat {

// What: which failpoints fire, and when. Owns the armed ones; one a process, since the code under test has no
// door for such a thing. Threads: any. Errors: none; what nobody armed never fires.
class Failpoints {
 public:
  static Failpoints& Get();

  // How often `name` fires: with `probability` at each passage, drawn from `seed`, after the first `skip`
  // passages, at most `times` times.
  struct Plan {
    double probability = 1;
    uint64_t seed = 1;
    int64_t skip = 0;
    int64_t times = INT64_MAX;
  };
  void Arm(std::string_view name, const Plan& plan) EXCLUDES(mu_);
  void Disarm(std::string_view name) EXCLUDES(mu_);

  bool Fires(std::string_view name) EXCLUDES(mu_);
  // How often it has fired since it was armed.
  int64_t fired(std::string_view name) const EXCLUDES(mu_);

 private:
  struct Armed {
    Plan plan;
    std::mt19937_64 random;
    int64_t passages = 0;
    int64_t fired = 0;
  };

  mutable Mutex mu_;
  std::map<std::string, Armed, std::less<>> armed_ GUARDED_BY(mu_);
};

// Arms a failpoint while it lives.
class ScopedFailpoint {
 public:
  explicit ScopedFailpoint(std::string_view name, const Failpoints::Plan& plan = {}) : name_(name) {
    Failpoints::Get().Arm(name_, plan);
  }
  ~ScopedFailpoint() { Failpoints::Get().Disarm(name_); }
  ScopedFailpoint(const ScopedFailpoint&) = delete;
  ScopedFailpoint& operator=(const ScopedFailpoint&) = delete;

  int64_t fired() const { return Failpoints::Get().fired(name_); }

 private:
  const std::string name_;
};

}  // namespace qanat

#define QANAT_FAILPOINT(name) (::qanat::Failpoints::Get().Fires(name))

#else

#define QANAT_FAILPOINT(name) false

#endif
