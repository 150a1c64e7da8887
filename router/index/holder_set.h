// Who holds a block, in 64 bits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "router/index/epochs.h"
#include "router/snapshot/cluster_snapshot.h"

namespace qanat::router {

// A holder's number within a word of holders: never 0, and below 2^15.
using Lane = uint16_t;
inline constexpr size_t kMostHolders = 0x7ffe;

inline Lane LaneOf(HolderId id) { return static_cast<Lane>(static_cast<uint16_t>(id) + 1); }
inline HolderId HolderOf(Lane lane) { return HolderId{static_cast<uint16_t>(lane - 1)}; }

// More holders than a word has lanes for: immutable, one copy for all blocks that these hold.
struct HolderSet {
  // Lane l is in it where bit l % 64 of bits[l / 64] is set; the last word is not 0.
  std::vector<uint64_t> bits;
  // Words that name it. Guarded by the HolderSets that made it.
  int64_t references = 0;
};

// A word of holders, by value:
//   0                     an empty slot
//   ~0                    a tombstone
//   top bit 0             up to four lanes of 16 bits, ascending from the lowest, 0: none
//   top bit 1, not ~0     half the address of a HolderSet
namespace holders {

inline constexpr uint64_t kEmpty = 0;
inline constexpr uint64_t kTombstone = ~uint64_t{0};
inline constexpr size_t kInlineLanes = 4;

inline bool IsBlock(uint64_t word) { return word + 1 > 1; }  // neither kEmpty nor kTombstone
inline bool IsSet(uint64_t word) { return word >> 63 != 0 && word != kTombstone; }
inline const HolderSet* SetOf(uint64_t word) { return reinterpret_cast<const HolderSet*>(word << 1); }

// REQUIRES: word is kEmpty or IsBlock; where it names a set, the set is alive.
bool Contains(uint64_t word, Lane lane);
// The lanes of such a word, ascending.
std::vector<Lane> Lanes(uint64_t word);
// Whether `predicate` holds of a lane of such a word.
template <typename Predicate>
bool Any(uint64_t word, Predicate predicate) {
  if (!IsSet(word)) {
    for (; word != 0; word >>= 16) {
      if (predicate(static_cast<Lane>(word))) return true;
    }
    return false;
  }
  const std::vector<uint64_t>& bits = SetOf(word)->bits;
  for (size_t i = 0; i < bits.size(); ++i) {
    for (uint64_t rest = bits[i]; rest != 0; rest &= rest - 1) {
      if (predicate(static_cast<Lane>(i * 64 + static_cast<size_t>(std::countr_zero(rest))))) return true;
    }
  }
  return false;
}

}  // namespace holders

// What: makes words of holders; keeps one HolderSet of each kind and counts the words that name it. Owns the
// sets; a set that no word names any more is freed when no reader can see it. Threads: any. Errors: none.
class HolderSets {
 public:
  // `epochs` outlives this. REQUIRES: at destruction no reader is inside.
  explicit HolderSets(Epochs& epochs) : epochs_(epochs) {}
  HolderSets(const HolderSets&) = delete;
  HolderSets& operator=(const HolderSets&) = delete;

  // The word of these lanes; kEmpty for none. It counts as one that names its set, until it is released.
  // REQUIRES: lanes ascend.
  uint64_t Make(absl::Span<const Lane> lanes) EXCLUDES(mu_);
  // The word with one lane more, or less; `word` itself when that changes nothing. A new word, as from Make;
  // `word` is not released.
  uint64_t With(uint64_t word, Lane lane) EXCLUDES(mu_);
  uint64_t Without(uint64_t word, Lane lane) EXCLUDES(mu_);
  // The word is not in any slot that new readers can reach.
  void Release(uint64_t word) EXCLUDES(mu_);

  // Of all sets, those that wait for readers included.
  size_t Bytes() const EXCLUDES(mu_);

 private:
  // Hashes and compares sets by what is in them.
  struct ByBits {
    using is_transparent = void;
    static const std::vector<uint64_t>& Of(const std::unique_ptr<HolderSet>& set) { return set->bits; }
    static const std::vector<uint64_t>& Of(const std::vector<uint64_t>& bits) { return bits; }
    template <typename T>
    size_t operator()(const T& set) const {
      return absl::Hash<std::vector<uint64_t>>()(Of(set));
    }
    template <typename T, typename U>
    bool operator()(const T& a, const U& b) const {
      return Of(a) == Of(b);
    }
  };

  // The word of the set with these bits, counted once more.
  uint64_t Name(std::vector<uint64_t> bits) EXCLUDES(mu_);

  Epochs& epochs_;
  mutable Mutex mu_;
  absl::flat_hash_set<std::unique_ptr<HolderSet>, ByBits, ByBits> sets_ GUARDED_BY(mu_);
  Limbo<std::unique_ptr<HolderSet>> limbo_ GUARDED_BY(mu_);
  size_t bits_bytes_ GUARDED_BY(mu_) = 0;
};

}  // namespace qanat::router
