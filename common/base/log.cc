#include "common/base/log.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace qanat {

absl::Status InitLogging(std::string_view format, std::string_view level) {
  const std::string level_name(level);
  const auto parsed = spdlog::level::from_str(level_name);
  if (parsed == spdlog::level::off && level_name != "off") {
    return absl::InvalidArgumentError(
        absl::StrCat("--log-level: '", level_name, "' is not debug, info, warn, error or off"));
  }
  auto logger = std::make_shared<spdlog::logger>("qanat", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (format == "json") {
    logger->set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":"%v"})");
  } else if (format == "text") {
    logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %L %v");
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("--log-format: '", std::string(format), "' is not text or json"));
  }
  logger->set_level(parsed);
  spdlog::set_default_logger(std::move(logger));
  return absl::OkStatus();
}

}  // namespace qanat
