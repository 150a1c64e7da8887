#include "common/base/error.h"

#include <charconv>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/base/units.h"

namespace qanat {
namespace {

constexpr char kFieldUrl[] = "qanat/field";
constexpr char kReasonUrl[] = "qanat/reason";
constexpr char kRetryUrl[] = "qanat/retry_after_ms";

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

std::string Payload(const absl::Status& status, const char* url) {
  const auto cord = status.GetPayload(url);
  return cord.has_value() ? std::string(*cord) : std::string();
}

}  // namespace

absl::Status WithField(absl::Status status, std::string_view field) {
  status.SetPayload(kFieldUrl, absl::Cord(View(field)));
  return status;
}

absl::Status InvalidField(std::string_view field, std::string_view problem) {
  return WithReason(
      WithField(absl::InvalidArgumentError(absl::StrCat(View(field), ": ", View(problem))), field),
      "INVALID_FIELD");
}

absl::Status UnhonouredField(std::string_view field) {
  return WithReason(
      WithField(absl::UnimplementedError(absl::StrCat(View(field), ": not honoured by this build")), field),
      "FIELD_NOT_HONOURED");
}

absl::Status WithReason(absl::Status status, std::string_view reason) {
  status.SetPayload(kReasonUrl, absl::Cord(View(reason)));
  return status;
}

absl::Status WithRetryAfter(absl::Status status, std::chrono::milliseconds after) {
  status.SetPayload(kRetryUrl, absl::Cord(absl::StrCat(after.count())));
  return status;
}

absl::Status DeadlineExceeded(std::string_view message) {
  return WithReason(absl::DeadlineExceededError(View(message)), "DEADLINE");
}

absl::Status ReaderStalled(Duration limit) {
  return WithReason(absl::CancelledError(absl::StrCat("the reader took nothing for ", FormatDuration(limit))),
                    "READER_STALLED");
}

std::string FieldOf(const absl::Status& status) { return Payload(status, kFieldUrl); }
std::string ReasonOf(const absl::Status& status) { return Payload(status, kReasonUrl); }

std::optional<std::chrono::milliseconds> RetryAfterOf(const absl::Status& status) {
  const std::string text = Payload(status, kRetryUrl);
  int64_t ms = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ms);
  if (text.empty() || error != std::errc()) return std::nullopt;
  return std::chrono::milliseconds(ms);
}

absl::Status PublicError(const absl::Status& status) {
  if (!absl::IsInternal(status) && !absl::IsUnknown(status) && !absl::IsDataLoss(status)) return status;
  absl::Status shown(status.code(), "internal error");
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { shown.SetPayload(url, payload); });
  return shown;
}

}  // namespace qanat
