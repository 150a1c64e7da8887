// What forwarding tells about itself while it runs. The service feeds the metrics catalogue from it; tests
// record it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/clock.h"

namespace qanat::router {

// What of a prompt was in a worker's cache, in tokens.
struct PromptHits {
  int32_t prompt = 0;    // all of it
  int32_t expected = 0;  // by the decision
  int32_t found = 0;     // by the worker
};

// Threads: any. Must not block. The default ignores everything.
class ForwardMetrics {
 public:
  virtual ~ForwardMetrics() = default;
  // `outcome`: "route", "wait" or "reject".
  virtual void OnDecision(std::string_view outcome, Duration took) {}
  virtual void OnDispatch(const std::string& worker) {}
  // A worker did not take a call: "full" or "draining".
  virtual void OnRedirect(std::string_view reason) {}
  // By how much the first token came later than the decision expected; not of answers that come in one piece.
  virtual void OnFirstToken(Duration late) {}
  // One message on its way to the caller.
  virtual void OnRelayed(int32_t tokens) {}
  // Of the worker that answered, once it has told.
  virtual void OnHits(const std::string& worker, const PromptHits& hits) {}
};

}  // namespace qanat::router
