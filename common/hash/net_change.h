// How a set of block hashes differs from what it was a while ago.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/hash/block_hash.h"

namespace qanat::hash {

// The difference of two sets, in an order that passes only through prefix-closed ones: `stored` has parents
// before their children, `removed` children before their parents.
struct SetDelta {
  std::vector<BlockHash> stored;
  std::vector<BlockHash> removed;

  bool empty() const { return stored.empty() && removed.empty(); }
  size_t size() const { return stored.size() + removed.size(); }
};

// What: sums up insertions and removals of one set; what comes and goes in between leaves no trace, so it
// never holds more than twice the largest set. A small value. Threads: one. Errors: none. Store and Remove
// are O(1), amortised; Take is O(what changed).
//
// The order of SetDelta follows from the callers' own: a set that is prefix-closed at every moment stores
// parents first and removes children first, and here each hash stands where its last change put it.
class NetChange {
 public:
  // REQUIRES: the hash is not in the set.
  void Store(BlockHash hash) { Note(hash, /*stored=*/true); }
  // REQUIRES: the hash is in the set.
  void Remove(BlockHash hash) { Note(hash, /*stored=*/false); }
  // REQUIRES: `delta` leads on from where the changes so far have led.
  void Apply(const SetDelta& delta);

  // Hashes that Take would give.
  size_t size() const { return places_.size(); }
  bool empty() const { return places_.empty(); }
  // The difference since the last call.
  SetDelta Take();

 private:
  struct Entry {
    BlockHash hash;
    bool stored;
    bool undone;
  };

  void Note(BlockHash hash, bool stored);
  void DropUndone();

  std::vector<Entry> log_;                         // in order
  absl::flat_hash_map<BlockHash, size_t> places_;  // in log_, of what is not undone
};

}  // namespace qanat::hash
