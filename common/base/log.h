// Logging: spdlog's default logger, set up once by main(). Never log prompts, outputs or keys.
//   spdlog::info("worker {} joined", id);
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "spdlog/spdlog.h"

namespace qanat {

// `format` is "text" or "json"; `level` one of spdlog's (debug, info, warn, error). Lines go to stderr.
// INVALID_ARGUMENT on anything else.
absl::Status InitLogging(std::string_view format, std::string_view level);

}  // namespace qanat
