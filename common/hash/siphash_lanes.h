// SipHash-1-3 of several messages of equal length at once, one a lane of a vector register.
#pragma once

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "common/hash/siphash.h"

namespace qanat::hash {

inline constexpr int kLanes = 8;

// States of kLanes messages after their first words.
struct SipLanes {
  std::array<std::array<uint64_t, kLanes>, 4> v;

  SipHash13 State(int lane) const { return SipHash13({v[0][lane], v[1][lane], v[2][lane], v[3][lane]}); }
};

// Message i begins with `num_words` little-endian words at `bytes` + i * `num_words` * 8: the messages lie
// one behind the other. The same states as SipHash13::Word would leave, on any processor.
SipLanes TakeIn(const HashKey& key, const void* bytes, int num_words);

// The ways of doing so that this processor has, the fastest first: TakeIn's own.
using TakeInWay = void (*)(const HashKey& key, const void* bytes, int num_words, SipLanes& states);
absl::Span<const TakeInWay> TakeInWays();

}  // namespace qanat::hash
