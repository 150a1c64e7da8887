#include "worker/engine/door.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/pool_tokens.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "worker/engine/end_status.h"

namespace qanat::engine {
namespace {

// Bounds of the hint when to try a full queue again.
constexpr std::chrono::milliseconds kSoonest(100);
constexpr std::chrono::milliseconds kLatest(30'000);

int64_t Milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

// Adds `amount` unless the sum would pass `bound`.
template <typename T>
bool TryAdd(std::atomic<T>& counter, T amount, T bound) {
  T value = counter.load(std::memory_order_relaxed);
  do {
    if (value > bound - amount) return false;
  } while (!counter.compare_exchange_weak(value, value + amount, std::memory_order_relaxed));
  return true;
}

}  // namespace

// The hint: when half of those who wait have started.
absl::Status Door::Full(std::string_view what, int64_t bound, std::string_view reason) const {
  const absl::Status status = absl::ResourceExhaustedError(absl::StrCat(
      "the queue is full: it holds at most ", bound, " ", absl::string_view(what.data(), what.size())));
  const auto drained = std::chrono::duration_cast<std::chrono::milliseconds>(drain_.Wait(requests()) / 2);
  return WithRetryAfter(WithReason(status, reason), std::clamp(drained, kSoonest, kLatest));
}

absl::Status Door::CheckRequest(const Request& request) const {
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0) return InvalidField("prompt", "must not be empty");
  if (prompt >= options_.context_length) {
    return InvalidField("prompt", absl::StrCat(prompt, " tokens leave no room in a context of ",
                                               options_.context_length, " tokens"));
  }
  if (request.max_tokens <= 0) {
    return InvalidField("stopping.max_tokens", absl::StrCat("must be at least 1, got ", request.max_tokens));
  }
  const int64_t output = std::min<int64_t>(request.max_tokens, options_.context_length - prompt);
  const int64_t needed = PoolTokens({.prompt = prompt, .output = output, .choices = request.num_choices()},
                                    options_.block_size, options_.prefix_cache);
  const int64_t blocks = (needed + options_.block_size - 1) / options_.block_size;
  if (blocks > options_.num_blocks) {
    return WithReason(
        InvalidField("stopping.max_tokens",
                     absl::StrCat("prompt and output take ", blocks,
                                  " blocks of the KV cache, this worker has ", options_.num_blocks)),
        "NEVER_FITS");
  }
  return absl::OkStatus();
}

int32_t Door::RequestsBefore(Priority priority) const {
  int32_t requests = 0;
  for (size_t i = 0; i <= static_cast<size_t>(priority); ++i) {
    requests += by_priority_[i].load(std::memory_order_relaxed);
  }
  return requests;
}

absl::Status Door::CheckDeadline(const Request& request, Time now) const {
  if (!request.deadline.has_value()) return absl::OkStatus();
  if (*request.deadline <= now) {
    return DeadlinePassed();
  }
  // Where nobody waits it may try: that also keeps the estimates fresh.
  if (requests() == 0) return absl::OkStatus();
  const Duration wait = drain_.Wait(RequestsBefore(request.priority));
  const Duration service = drain_.Service(request.max_tokens);
  if (now + wait + service <= *request.deadline) return absl::OkStatus();
  return DeadlineExceeded(absl::StrCat("the deadline cannot be met: it is in ",
                                       Milliseconds(*request.deadline - now), " ms, the queue takes about ",
                                       Milliseconds(wait), " ms and the answer ", Milliseconds(service),
                                       " ms"));
}

absl::Status Door::Enter(const Request& request, Time now) {
  if (closed()) return WithReason(absl::UnavailableError("the worker is draining"), "DRAINING");
  QANAT_RETURN_IF_ERROR(CheckRequest(request));
  QANAT_RETURN_IF_ERROR(CheckDeadline(request, now));
  if (!TryAdd(requests_, 1, options_.queue_requests)) {
    return Full("requests", options_.queue_requests, "QUEUE_FULL");
  }
  if (!TryAdd(tokens_, static_cast<int64_t>(request.prompt.size()), options_.queue_tokens)) {
    requests_.fetch_sub(1, std::memory_order_relaxed);
    return Full("prompt tokens", options_.queue_tokens, "TOKENS_FULL");
  }
  by_priority_[static_cast<size_t>(request.priority)].fetch_add(1, std::memory_order_relaxed);
  return absl::OkStatus();
}

void Door::Leave(const CountByPriority& requests, int64_t tokens) {
  int32_t sum = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    sum += requests[i];
    QANAT_CHECK(by_priority_[i].fetch_sub(requests[i], std::memory_order_relaxed) >= requests[i]);
  }
  const int32_t requests_before = requests_.fetch_sub(sum, std::memory_order_relaxed);
  const int64_t tokens_before = tokens_.fetch_sub(tokens, std::memory_order_relaxed);
  QANAT_CHECK(requests_before >= sum && tokens_before >= tokens);
}

}  // namespace qanat::engine
