// How much this router takes on at once.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"

namespace qanat::router {

// Bounds over all open requests.
struct AdmissionOptions {
  int64_t queue_requests = 4096;
  int64_t queue_tokens = int64_t{8} << 20;  // of prompts
  int64_t queue_bytes = int64_t{1} << 30;   // of requests as received

  // INVALID_ARGUMENT naming the flag that is not positive.
  absl::Status Validate() const;
};

// What: lets requests in while they fit, and until the router leaves. Owns the counts; outlives every ticket.
// Threads: any. Errors: RESOURCE_EXHAUSTED with a retry hint, reason QUEUE_FULL, TOKENS_FULL or BYTES_FULL;
// UNAVAILABLE with a retry hint, reason DRAINING.
//
// Invariant: each count is the sum over live tickets.
class Admission {
 public:
  // A request's place, while it lives.
  class Ticket {
   public:
    Ticket(Ticket&& other) noexcept;
    Ticket& operator=(Ticket&& other) noexcept;
    ~Ticket();

    // Adds the prompt, once its length is known; an error leaves the ticket as it was.
    absl::Status AddTokens(int64_t tokens);

   private:
    friend class Admission;
    Ticket(Admission* admission, int64_t bytes) : admission_(admission), bytes_(bytes) {}

    Admission* admission_;  // null: moved from
    int64_t bytes_;
    int64_t tokens_ = 0;
  };

  struct Usage {
    int64_t requests = 0;
    int64_t tokens = 0;
    int64_t bytes = 0;
  };

  // REQUIRES: options.Validate() is OK.
  explicit Admission(const AdmissionOptions& options) : options_(options) {}

  // `bytes`: the size of the request.
  absl::StatusOr<Ticket> Enter(int64_t bytes) EXCLUDES(mu_);
  Usage usage() const EXCLUDES(mu_);

  // Nobody is let in from now on.
  void Close() EXCLUDES(mu_);

 private:
  absl::Status TakeTokens(int64_t tokens) EXCLUDES(mu_);
  void Leave(int64_t bytes, int64_t tokens) EXCLUDES(mu_);

  const AdmissionOptions options_;
  mutable Mutex mu_;
  Usage used_ GUARDED_BY(mu_);
  bool closed_ GUARDED_BY(mu_) = false;
};

}  // namespace qanat::router
