// What an absl::Status of ours carries beside its code and message: the field at fault, a reason that a
// program can read, and when to try again. common/rpc turns them into google.rpc details
// (BadRequest, ErrorInfo, RetryInfo) and back.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/base/clock.h"

namespace qanat {

// INVALID_ARGUMENT about one field, e.g. ("sampling.top_p", "must be in (0, 1], got 1.5"). The message is
// "<field>: <problem>".
absl::Status InvalidField(std::string_view field, std::string_view problem);

// UNIMPLEMENTED: a field that this build does not honour.
absl::Status UnhonouredField(std::string_view field);

// `reason` in UPPER_SNAKE_CASE, e.g. "QUEUE_FULL".
absl::Status WithReason(absl::Status status, std::string_view reason);
absl::Status WithRetryAfter(absl::Status status, std::chrono::milliseconds after);

// DEADLINE_EXCEEDED, reason DEADLINE.
absl::Status DeadlineExceeded(std::string_view message);

// CANCELLED, reason READER_STALLED: the reader took nothing for `limit`.
absl::Status ReaderStalled(Duration limit);

// Empty or unset where `status` carries none.
std::string FieldOf(const absl::Status& status);
std::string ReasonOf(const absl::Status& status);
std::optional<std::chrono::milliseconds> RetryAfterOf(const absl::Status& status);

// Sets the field of a status made elsewhere, its message untouched.
absl::Status WithField(absl::Status status, std::string_view field);

// What may be told to a caller: `status`, but the message of INTERNAL, UNKNOWN and DATA_LOSS, which may hold
// whatever went wrong inside (a path, an address, a piece of a prompt), gives way to a fixed one. What is
// attached stays. Log the status itself before it is dropped.
absl::Status PublicError(const absl::Status& status);

}  // namespace qanat
