// Whether a request may come in: answered on the caller's thread, without waiting for a step.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "worker/engine/drain_estimate.h"
#include "worker/engine/engine_options.h"
#include "worker/engine/request.h"

namespace qanat::engine {

// What: checks requests and counts the ones that came in and have not started, in requests and prompt tokens.
// Threads: any; both sums are reserved by compare-exchange, so that the bounds hold at every moment.
// Errors: as Engine::Submit. `options` and `drain` outlive it.
class Door {
 public:
  Door(const EngineOptions& options, const DrainEstimate& drain) : options_(options), drain_(drain) {}

  // On OK a place is reserved, until Leave.
  absl::Status Enter(const Request& request, Time now);
  // Requests started or ended, with this many prompt tokens together.
  void Leave(const CountByPriority& requests, int64_t tokens);

  // Refuses everybody from now on.
  void Close() { closed_.store(true, std::memory_order_relaxed); }
  bool closed() const { return closed_.load(std::memory_order_relaxed); }

  int32_t requests() const { return requests_.load(std::memory_order_relaxed); }
  int64_t tokens() const { return tokens_.load(std::memory_order_relaxed); }

 private:
  absl::Status CheckRequest(const Request& request) const;
  // Requests of its own and of higher classes: those that start before it.
  int32_t RequestsBefore(Priority priority) const;
  absl::Status CheckDeadline(const Request& request, Time now) const;
  absl::Status Full(std::string_view what, int64_t bound, std::string_view reason) const;

  const EngineOptions& options_;
  const DrainEstimate& drain_;
  std::atomic<bool> closed_{false};
  std::atomic<int32_t> requests_{0};  // <= options_.queue_requests
  std::atomic<int64_t> tokens_{0};    // <= options_.queue_tokens
  // The sum is requests_, but for those that are coming in this moment.
  std::array<std::atomic<int32_t>, std::tuple_size_v<CountByPriority>> by_priority_{};
};

}  // namespace qanat::engine
