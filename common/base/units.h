// Durations and sizes as people write them in flags: "250ms", "5s", "10m"; "64M", "1G".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace qanat {

// Units: ns, us, ms, s, m, h; a unit is required, but for 0. INVALID_ARGUMENT otherwise, and when negative.
absl::StatusOr<Duration> ParseDuration(std::string_view text);
std::string FormatDuration(Duration duration);

// A whole number, or one followed by K, M, G or T (powers of 1024).
absl::StatusOr<int64_t> ParseSize(std::string_view text);

}  // namespace qanat
