#include "router/admission/admission.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/retry_after.h"

namespace qanat::router {
namespace {

absl::Status Full(const char* what, int64_t limit, std::string_view reason) {
  return WithRetryAfter(WithReason(absl::ResourceExhaustedError(absl::StrCat(
                                       "the router holds as many ", what, " as it may (", limit, ")")),
                                   reason),
                        kRetryAfter);
}

absl::Status CheckPositive(const char* flag, int64_t value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(flag, " must be positive, got ", value));
}

}  // namespace

absl::Status AdmissionOptions::Validate() const {
  if (absl::Status status = CheckPositive("--queue-requests", queue_requests); !status.ok()) return status;
  if (absl::Status status = CheckPositive("--queue-tokens", queue_tokens); !status.ok()) return status;
  return CheckPositive("--queue-bytes", queue_bytes);
}

Admission::Ticket::Ticket(Ticket&& other) noexcept
    : admission_(std::exchange(other.admission_, nullptr)), bytes_(other.bytes_), tokens_(other.tokens_) {}

Admission::Ticket& Admission::Ticket::operator=(Ticket&& other) noexcept {
  std::swap(admission_, other.admission_);
  std::swap(bytes_, other.bytes_);
  std::swap(tokens_, other.tokens_);
  return *this;
}

Admission::Ticket::~Ticket() {
  if (admission_ != nullptr) admission_->Leave(bytes_, tokens_);
}

absl::Status Admission::Ticket::AddTokens(int64_t tokens) {
  if (absl::Status status = admission_->TakeTokens(tokens); !status.ok()) return status;
  tokens_ += tokens;
  return absl::OkStatus();
}

absl::StatusOr<Admission::Ticket> Admission::Enter(int64_t bytes) {
  MutexLock lock(mu_);
  if (closed_) {
    return WithRetryAfter(WithReason(absl::UnavailableError("the router is leaving"), "DRAINING"),
                          kRetryAfter);
  }
  if (used_.requests >= options_.queue_requests)
    return Full("requests", options_.queue_requests, "QUEUE_FULL");
  if (bytes > options_.queue_bytes - used_.bytes) return Full("bytes", options_.queue_bytes, "BYTES_FULL");
  ++used_.requests;
  used_.bytes += bytes;
  return Ticket(this, bytes);
}

Admission::Usage Admission::usage() const {
  MutexLock lock(mu_);
  return used_;
}

void Admission::Close() {
  MutexLock lock(mu_);
  closed_ = true;
}

absl::Status Admission::TakeTokens(int64_t tokens) {
  MutexLock lock(mu_);
  if (tokens > options_.queue_tokens - used_.tokens)
    return Full("tokens", options_.queue_tokens, "TOKENS_FULL");
  used_.tokens += tokens;
  return absl::OkStatus();
}

void Admission::Leave(int64_t bytes, int64_t tokens) {
  MutexLock lock(mu_);
  --used_.requests;
  used_.bytes -= bytes;
  used_.tokens -= tokens;
}

}  // namespace qanat::router
