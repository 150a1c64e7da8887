// A short name for the contents of a file: tells whether two processes hold the same model.
#pragma once

#include <cstddef>
#include <string>

#include "absl/types/span.h"

namespace qanat::hash {

// 32 hex digits (XXH3, 128 bits, big-endian), equal on every machine for equal bytes. No defence against
// someone who wants two files to collide. Runs at the speed of memory.
std::string Fingerprint(absl::Span<const std::byte> bytes);

}  // namespace qanat::hash
