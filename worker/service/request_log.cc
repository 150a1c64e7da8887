#include "worker/service/request_log.h"

#include "absl/strings/ascii.h"
#include "common/base/error.h"
#include "common/base/log.h"

namespace qanat::service {
namespace {

constexpr size_t kMaxLabelBytes = 64;

double Ms(Duration duration) { return Seconds(duration) * 1e3; }

}  // namespace

std::string SafeLabel(std::string_view label) {
  std::string safe(label.substr(0, kMaxLabelBytes));
  for (char& c : safe) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        std::string_view(".:_-").find(c) == std::string_view::npos) {
      c = '?';
    }
  }
  return safe;
}

std::string_view NameOf(engine::EndReason reason) {
  switch (reason) {
    case engine::EndReason::kStop:
      return "stop";
    case engine::EndReason::kLength:
      return "length";
    case engine::EndReason::kCancelled:
      return "cancelled";
    case engine::EndReason::kDeadline:
      return "deadline";
    case engine::EndReason::kError:
      break;
  }
  return "error";
}

void LogEnd(SequenceId id, std::string_view request_id, const engine::Outcome& outcome, Duration total) {
  const bool failed = outcome.reason == engine::EndReason::kError;
  LogEvent event(failed ? spdlog::level::warn : spdlog::level::info, "request end");
  event.With("sequence", ToInt(id))
      .With("request_id", SafeLabel(request_id))
      .With("outcome", NameOf(outcome.reason))
      .With("reason", ReasonOf(outcome.status))
      .With("prompt_tokens", outcome.prompt_tokens)
      .With("cached_tokens", outcome.cached_tokens)
      .With("completion_tokens", outcome.completion_tokens);
  if (outcome.queue.has_value()) event.With("queue_ms", Ms(*outcome.queue));
  event.With("prefill_ms", Ms(outcome.prefill))
      .With("decode_ms", Ms(outcome.decode))
      .With("total_ms", Ms(total))
      .With("preemptions", outcome.preemptions)
      .With("recomputed_tokens", outcome.recomputed_tokens);
}

void LogRefusal(std::string_view request_id, const absl::Status& why, bool redirected) {
  const bool no_room = absl::IsResourceExhausted(why) || absl::IsUnavailable(why);
  const auto level = redirected || no_room ? spdlog::level::debug : spdlog::level::info;
  // Where nobody listens a refusal stays as cheap as overload wants it.
  if (!spdlog::should_log(level)) return;
  LogEvent event(level, "request not accepted");
  event.With("request_id", SafeLabel(request_id))
      .With("code", absl::StatusCodeToString(why.code()))
      .With("reason", ReasonOf(why));
  if (const std::string field = FieldOf(why); !field.empty()) event.With("field", SafeLabel(field));
}

}  // namespace qanat::service
