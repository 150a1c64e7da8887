// Logging: spdlog's default logger, set up once by main(). Never log prompts, outputs or keys.
//   spdlog::info("worker {} joined", id);
//   LogEvent(spdlog::level::info, "request end").With("tokens", 12).With("outcome", "stop");
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "spdlog/formatter.h"
#include "spdlog/spdlog.h"

namespace qanat {

// `format` is "text" or "json"; `level` one of spdlog's (debug, info, warn, error). Lines go to stderr.
// INVALID_ARGUMENT on anything else.
absl::Status InitLogging(std::string_view format, std::string_view level);

// How lines of `format` look; what InitLogging gives its logger. Text: time, level, message, key=value ...;
// JSON: one object a line with "time", "level", "message" and a member for each field.
absl::StatusOr<std::unique_ptr<spdlog::formatter>> MakeLogFormatter(std::string_view format);

// What: one line with fields that programs read. Written when it is destroyed. Threads: any, each its own.
class LogEvent {
 public:
  LogEvent(spdlog::level::level_enum level, std::string_view what) : level_(level), payload_(what) {}
  ~LogEvent() { spdlog::log(level_, "{}", payload_); }
  LogEvent(const LogEvent&) = delete;
  LogEvent& operator=(const LogEvent&) = delete;

  // `key` in snake_case. An empty text is left out.
  LogEvent& With(std::string_view key, std::string_view text);
  LogEvent& With(std::string_view key, double number);
  template <std::integral Number>
  LogEvent& With(std::string_view key, Number number) {
    return Add(key, std::to_string(number), /*is_text=*/false);
  }

 private:
  LogEvent& Add(std::string_view key, std::string_view value, bool is_text);

  const spdlog::level::level_enum level_;
  std::string payload_;  // fields are told from the message by marks that the formatter knows
};

}  // namespace qanat
