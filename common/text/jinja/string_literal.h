// String constants: what the backslashes in them mean.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace qanat::text::jinja {

// Python's escapes: \n \t \\ \' \" \a \b \f \v \r, \ooo, \xhh, \uhhhh, \Uhhhhhhhh, a backslash before a
// newline (both vanish); before anything else a backslash stays. INVALID_ARGUMENT for a cut or impossible
// escape and for \N{...}.
absl::StatusOr<std::string> Unescape(std::string_view literal);

}  // namespace qanat::text::jinja
