// When to try again where nothing tells better.
#pragma once

#include <chrono>

namespace qanat {

// Requests last seconds, so some have ended by then.
inline constexpr std::chrono::milliseconds kRetryAfter{1000};

}  // namespace qanat
