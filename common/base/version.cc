#include "common/base/version.h"

namespace qanat {

std::string_view Version() { return QANAT_VERSION; }
std::string_view Revision() { return QANAT_REVISION; }

std::string_view Compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

}  // namespace qanat
