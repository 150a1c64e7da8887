// A set of block hashes in brief.
#pragma once

#include <cstdint>

#include "common/hash/block_hash.h"

namespace qanat::hash {

// What: count and digest of a set, kept up to date as it changes. Two sets of equal brief are taken for
// equal. Threads: a value. Errors: none; it cannot tell whether what is removed was ever added.
struct Residency {
  int64_t resident_count = 0;
  uint64_t digest = 0;  // the sum of Mix over the set, modulo 2^64

  void Add(BlockHash hash) { ++resident_count, digest += Mix(hash); }
  void Remove(BlockHash hash) { --resident_count, digest -= Mix(hash); }
  bool operator==(const Residency&) const = default;
};

}  // namespace qanat::hash
