#include "common/base/log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace qanat {
namespace {

// In a payload: a field begins, its value begins; after kText it is a text, else a number.
constexpr char kField = '\x1e';
constexpr char kText = '\x1f';
constexpr char kNumber = '\x1d';
constexpr std::string_view kMarks = "\x1d\x1e\x1f";

std::string_view Take(std::string_view& rest, std::string_view until) {
  const size_t end = std::min(rest.find_first_of(until), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(end);
  return taken;
}

void AppendEscaped(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> escape;
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
      out += escape.data();
    } else {
      out += c;
    }
  }
}

// Payload -> what stands behind time and level.
void AppendText(std::string_view rest, std::string& out) {
  out += Take(rest, kMarks);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    out += ' ';
    out += Take(rest, kMarks);
    if (rest.empty()) return;
    rest.remove_prefix(1);
    out += '=';
    out += Take(rest, kMarks);
  }
}

// Payload -> members of an object.
void AppendJson(std::string_view rest, std::string& out) {
  out += R"("message":")";
  AppendEscaped(Take(rest, kMarks), out);
  out += '"';
  while (!rest.empty()) {
    rest.remove_prefix(1);
    out += ",\"";
    AppendEscaped(Take(rest, kMarks), out);
    out += "\":";
    if (rest.empty()) return;
    const bool is_text = rest.front() == kText;
    rest.remove_prefix(1);
    if (is_text) out += '"';
    AppendEscaped(Take(rest, kMarks), out);
    if (is_text) out += '"';
  }
}

// What: time and level by a pattern of spdlog, then the payload. Threads: each sink has its own.
class LineFormatter final : public spdlog::formatter {
 public:
  explicit LineFormatter(bool json)
      : json_(json),
        head_(json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",)" : "%Y-%m-%d %H:%M:%S.%e %L ",
              spdlog::pattern_time_type::local, "") {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    head_.format(message, line);
    std::string body;
    const std::string_view payload(message.payload.data(), message.payload.size());
    if (json_) {
      AppendJson(payload, body);
      body += '}';
    } else {
      AppendText(payload, body);
    }
    body += '\n';
    line.append(body.data(), body.data() + body.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<LineFormatter>(json_); }

 private:
  const bool json_;
  spdlog::pattern_formatter head_;
};

}  // namespace

LogEvent& LogEvent::With(std::string_view key, std::string_view text) {
  return text.empty() ? *this : Add(key, text, /*is_text=*/true);
}

LogEvent& LogEvent::With(std::string_view key, double number) {
  if (!std::isfinite(number)) return *this;
  std::array<char, 32> digits;
  std::snprintf(digits.data(), digits.size(), "%.3f", number);
  return Add(key, digits.data(), /*is_text=*/false);
}

LogEvent& LogEvent::Add(std::string_view key, std::string_view value, bool is_text) {
  payload_ += kField;
  payload_ += key;
  payload_ += is_text ? kText : kNumber;
  // A mark inside a text would end it.
  for (const char c : value) payload_ += kMarks.find(c) == std::string_view::npos ? c : '?';
  return *this;
}

absl::StatusOr<std::unique_ptr<spdlog::formatter>> MakeLogFormatter(std::string_view format) {
  if (format == "text" || format == "json") return std::make_unique<LineFormatter>(format == "json");
  return absl::InvalidArgumentError(
      absl::StrCat("--log-format: '", std::string(format), "' is not text or json"));
}

absl::Status InitLogging(std::string_view format, std::string_view level) {
  const std::string level_name(level);
  const auto parsed = spdlog::level::from_str(level_name);
  if (parsed == spdlog::level::off && level_name != "off") {
    return absl::InvalidArgumentError(
        absl::StrCat("--log-level: '", level_name, "' is not debug, info, warn, error or off"));
  }
  QANAT_ASSIGN_OR_RETURN(std::unique_ptr<spdlog::formatter> formatter, MakeLogFormatter(format));
  auto logger = std::make_shared<spdlog::logger>("qanat", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(std::move(formatter));
  logger->set_level(parsed);
  spdlog::set_default_logger(std::move(logger));
  return absl::OkStatus();
}

}  // namespace qanat
