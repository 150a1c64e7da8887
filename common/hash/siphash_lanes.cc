#include "common/hash/siphash_lanes.h"

#include <cstring>

namespace qanat::hash {
namespace {

// GCC's vector extension: the same lines become whatever the caller's target has.
using Lanes = uint64_t __attribute__((vector_size(kLanes * sizeof(uint64_t))));

template <int kBits>
[[gnu::always_inline]] inline void Rotate(Lanes& lanes) {
  lanes = (lanes << kBits) | (lanes >> (64 - kBits));
}

[[gnu::always_inline]] inline void Round(Lanes& v0, Lanes& v1, Lanes& v2, Lanes& v3) {
  v0 += v1;
  Rotate<13>(v1);
  v1 ^= v0;
  Rotate<32>(v0);
  v2 += v3;
  Rotate<16>(v3);
  v3 ^= v2;
  v0 += v3;
  Rotate<21>(v3);
  v3 ^= v0;
  v2 += v1;
  Rotate<17>(v1);
  v1 ^= v2;
  Rotate<32>(v2);
}

[[gnu::always_inline]] inline void TakeInLanes(const HashKey& key, const void* bytes, int num_words,
                                               SipLanes& states) {
  const SipHash13::State start = SipHash13(key).state();
  Lanes v0 = start[0] - Lanes{};
  Lanes v1 = start[1] - Lanes{};
  Lanes v2 = start[2] - Lanes{};
  Lanes v3 = start[3] - Lanes{};
  const char* const begin = static_cast<const char*>(bytes);
  const size_t stride = static_cast<size_t>(num_words) * sizeof(uint64_t);
  for (int w = 0; w < num_words; ++w) {
    const auto at = [&](int lane) {
      uint64_t word;
      std::memcpy(&word, begin + lane * stride + w * sizeof(uint64_t), sizeof(word));
      return word;
    };
    static_assert(kLanes == 8);
    // From registers: eight stores and a load of them all would wait for one another.
    const Lanes word = {at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)};
    v3 ^= word;
    Round(v0, v1, v2, v3);
    v0 ^= word;
  }
  std::memcpy(states.v[0].data(), &v0, sizeof(v0));
  std::memcpy(states.v[1].data(), &v1, sizeof(v1));
  std::memcpy(states.v[2].data(), &v2, sizeof(v2));
  std::memcpy(states.v[3].data(), &v3, sizeof(v3));
}

[[gnu::target("avx512f")]] void TakeInAvx512(const HashKey& key, const void* bytes, int num_words,
                                             SipLanes& states) {
  TakeInLanes(key, bytes, num_words, states);
}

[[gnu::target("avx2")]] void TakeInAvx2(const HashKey& key, const void* bytes, int num_words,
                                        SipLanes& states) {
  TakeInLanes(key, bytes, num_words, states);
}

void TakeInAny(const HashKey& key, const void* bytes, int num_words, SipLanes& states) {
  TakeInLanes(key, bytes, num_words, states);
}

constexpr TakeInWay kWays[] = {TakeInAvx512, TakeInAvx2, TakeInAny};

}  // namespace

absl::Span<const TakeInWay> TakeInWays() {
  const absl::Span<const TakeInWay> all = kWays;
  if (__builtin_cpu_supports("avx512f")) return all;
  return __builtin_cpu_supports("avx2") ? all.subspan(1) : all.subspan(2);
}

SipLanes TakeIn(const HashKey& key, const void* bytes, int num_words) {
  static const TakeInWay take_in = TakeInWays().front();
  SipLanes states;
  take_in(key, bytes, num_words, states);
  return states;
}

}  // namespace qanat::hash
