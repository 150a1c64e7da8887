// What a test's code logs, in the format "text".
#pragma once

#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "spdlog/sinks/ostream_sink.h"

namespace qanat::service {

// What: takes the place of the default logger while it lives. Threads: the lines are read when nobody logs.
class CapturedLog {
 public:
  CapturedLog() : before_(spdlog::default_logger()) {
    auto logger =
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_));
    logger->set_formatter(MakeLogFormatter("text").value());
    spdlog::set_default_logger(std::move(logger));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  std::string lines() const { return lines_.str(); }

 private:
  std::ostringstream lines_;
  const std::shared_ptr<spdlog::logger> before_;
};

}  // namespace qanat::service
