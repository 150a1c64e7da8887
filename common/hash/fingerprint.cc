#include "common/hash/fingerprint.h"

#include <xxhash.h>

#include "absl/strings/escaping.h"

namespace qanat::hash {

std::string Fingerprint(absl::Span<const std::byte> bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(canonical.digest), sizeof(canonical.digest)));
}

}  // namespace qanat::hash
