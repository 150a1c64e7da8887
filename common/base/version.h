// What this build is.
#pragma once

#include <string_view>

namespace qanat {

std::string_view Version();   // of the project, "0.1.0"
std::string_view Revision();  // of the source when it was configured, or "unknown"
std::string_view Compiler();  // name and version

}  // namespace qanat
