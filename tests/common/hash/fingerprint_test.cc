#include "common/hash/fingerprint.h"

#include <string_view>
#include <vector>

#include "gtest/gtest.h"

namespace qanat::hash {
namespace {

absl::Span<const std::byte> Bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// The digest that XXH3's own specification gives for no input.
TEST(FingerprintTest, IsXxh3In128Bits) { EXPECT_EQ(Fingerprint({}), "99aa06d3014798d86001c324468d497f"); }

TEST(FingerprintTest, ChangesWithEveryByte) {
  std::vector<std::byte> bytes(5000);
  const std::string before = Fingerprint(bytes);
  EXPECT_EQ(before, Fingerprint(std::vector<std::byte>(5000)));
  for (size_t at : {size_t{0}, size_t{1234}, bytes.size() - 1}) {
    bytes[at] = std::byte{1};
    EXPECT_NE(Fingerprint(bytes), before) << at;
    bytes[at] = std::byte{0};
  }
  EXPECT_NE(Fingerprint(Bytes("a")), Fingerprint(Bytes("b")));
}

}  // namespace
}  // namespace qanat::hash
