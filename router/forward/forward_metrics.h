// What forwarding tells about itself while it runs. The service feeds the metrics catalogue from it; tests
// record it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/clock.h"

namespace qanat::router {

// Threads: any. Must not block. The default ignores everything.
class ForwardMetrics {
 public:
  virtual ~ForwardMetrics() = default;
  // `outcome`: "route", "wait" or "reject".
  virtual void OnDecision(std::string_view outcome, Duration took) {}
  // `hit_tokens`: of the prompt, expected in the worker's cache.
  virtual void OnDispatch(const std::string& worker, int32_t prompt_tokens, int32_t hit_tokens) {}
  // A worker did not take a call: "full" or "draining".
  virtual void OnRedirect(std::string_view reason) {}
  // By how much the first token came later than the decision expected.
  virtual void OnFirstToken(Duration late) {}
  // One message on its way to the caller.
  virtual void OnRelayed(int32_t tokens) {}
  // What a worker found of a prompt in its cache.
  virtual void OnCachedTokens(const std::string& worker, int32_t tokens) {}
};

}  // namespace qanat::router
