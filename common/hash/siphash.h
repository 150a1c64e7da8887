// SipHash-c-d (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012), written for words that are
// already in registers. Keyed: who does not know the key can neither predict a value nor make two inputs
// collide.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace qanat::hash {

struct HashKey {
  uint64_t k0 = 0;
  uint64_t k1 = 0;

  bool operator==(const HashKey&) const = default;
};

// One message, fed as little-endian 64-bit words and a tail of less than 8 bytes. A value type; no errors.
template <int kRounds, int kFinalRounds>
class SipHasher {
 public:
  explicit SipHasher(const HashKey& key)
      : v0_(key.k0 ^ 0x736f6d6570736575),
        v1_(key.k1 ^ 0x646f72616e646f6d),
        v2_(key.k0 ^ 0x6c7967656e657261),
        v3_(key.k1 ^ 0x7465646279746573) {}

  // What is left of the words so far.
  using State = std::array<uint64_t, 4>;
  explicit SipHasher(const State& state) : v0_(state[0]), v1_(state[1]), v2_(state[2]), v3_(state[3]) {}
  State state() const { return {v0_, v1_, v2_, v3_}; }

  void Word(uint64_t word) {
    v3_ ^= word;
    for (int i = 0; i < kRounds; ++i) Round();
    v0_ ^= word;
  }

  // `tail` holds the last length % 8 bytes of a message of `length` bytes, the rest of it 0.
  uint64_t Finish(uint64_t tail, uint64_t length) {
    Word(tail | (length << 56));
    v2_ ^= 0xff;
    for (int i = 0; i < kFinalRounds; ++i) Round();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  void Round() {
    v0_ += v1_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v3_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ += v3_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ += v1_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v2_ = std::rotl(v2_, 32);
  }

  uint64_t v0_, v1_, v2_, v3_;
};

using SipHash13 = SipHasher<1, 3>;
using SipHash24 = SipHasher<2, 4>;

// The hash of a string of bytes.
template <typename Hasher>
uint64_t HashBytes(const HashKey& key, std::string_view bytes) {
  static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");
  Hasher hasher(key);
  const uint64_t length = bytes.size();
  for (; bytes.size() >= sizeof(uint64_t); bytes.remove_prefix(sizeof(uint64_t))) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof(word));
    hasher.Word(word);
  }
  uint64_t tail = 0;
  std::memcpy(&tail, bytes.data(), bytes.size());
  return hasher.Finish(tail, length);
}

}  // namespace qanat::hash
