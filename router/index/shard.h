// A part of the index: an open-addressing table that one writes and any number read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "common/hash/block_hash.h"
#include "router/index/epochs.h"
#include "router/index/holder_set.h"

namespace qanat::router {

// Which holders count: the index opens and closes them, readers and writers look.
class OpenHolders {
 public:
  bool IsOpen(Lane lane) const { return open_[lane].load(std::memory_order_acquire); }
  void Set(Lane lane, bool open) { open_[lane].store(open, std::memory_order_release); }

 private:
  std::array<std::atomic<bool>, kMostHolders + 1> open_{};
};

// The shard of a block is the first bits of its mix; its place there follows from the others.
inline constexpr int kShardBits = 8;

// What: block -> who holds it, for the blocks that fall to this shard. Owns its table; `epochs`, `sets` and
// `open` outlive it. Threads: Find from any, within an Epochs::Reader, without a lock; the others from any,
// one at a time by its mutex. Errors: none.
//
// Linear probing. A block never moves within a table; a table that is too full, too empty or worn by
// tombstones is replaced by a copy. Invariants, at rest:
// (1) live_ == slots that hold a block, used_ == those and tombstones; (2) used_ <= 3/4 of the slots;
// (3) live_ >= half of the slots of a table larger than the smallest; (4) no block is there twice, nor behind
// an empty slot of its probe; (5) no tombstone is before an empty slot.
class alignas(64) Shard {
 public:
  Shard(Epochs& epochs, HolderSets& sets, const OpenHolders& open);
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // The word of a block's holders; kEmpty when it has none. `mix` is hash::Mix(hash), here and below.
  // REQUIRES: the caller is an Epochs::Reader, and remains it while it looks at a set the word names.
  uint64_t Find(hash::BlockHash hash, uint64_t mix) const;

  // Has the block's slot brought nearer for a Find soon after. REQUIRES: as Find.
  void Prefetch(uint64_t mix) const {
    const Table& table = *table_.load();
    __builtin_prefetch(&table.slots[table.Home(mix)]);
  }

  // False when the holder has the block already.
  bool Add(hash::BlockHash hash, uint64_t mix, Lane lane) EXCLUDES(mu_);
  // False when the holder does not have the block.
  bool Remove(hash::BlockHash hash, uint64_t mix, Lane lane) EXCLUDES(mu_);

  // Where a sweep of closed holders has got to.
  struct Cursor {
    size_t position = 0;
    uint64_t generation = 0;  // of the table; 0: not begun
  };
  // Forgets closed holders in up to `slots` slots from the cursor on, and takes what it did from `slots`.
  // True when nothing of those that were closed when the cursor began is left.
  bool Sweep(Cursor& cursor, int64_t& slots) EXCLUDES(mu_);

  // Blocks, and bytes of the table; may be read at any time.
  int64_t live() const { return published_live_.load(std::memory_order_relaxed); }
  size_t bytes() const { return published_bytes_.load(std::memory_order_relaxed); }

  void CheckInvariants() const EXCLUDES(mu_);

 private:
  struct Slot {
    std::atomic<hash::BlockHash> hash;
    std::atomic<uint64_t> holders;
  };
  struct Table {
    explicit Table(size_t slots) : size(slots), slots(std::make_unique<Slot[]>(slots)) {}
    // Keeps the order of mixes, so that a copy runs through both tables from front to back.
    size_t Home(uint64_t mix) const {
      return static_cast<size_t>((static_cast<unsigned __int128>(mix << kShardBits) * size) >> 64);
    }
    size_t Next(size_t i) const { return i + 1 == size ? 0 : i + 1; }
    size_t Previous(size_t i) const { return i == 0 ? size - 1 : i - 1; }

    const size_t size;
    const std::unique_ptr<Slot[]> slots;
  };

  // The block's slot, or null.
  Slot* FindSlot(hash::BlockHash hash, uint64_t mix) REQUIRES(mu_);
  void Insert(hash::BlockHash hash, uint64_t mix, uint64_t word) REQUIRES(mu_);
  // Empties the slot.
  void Erase(Slot& slot) REQUIRES(mu_);
  // Gives the slot other holders; kEmpty erases it.
  void Replace(Slot& slot, uint64_t word) REQUIRES(mu_);
  // The word without closed holders; `word` itself when it has none.
  uint64_t WithoutClosed(uint64_t word) const;
  // Puts a copy in the table's place, without tombstones and closed holders and with room for more blocks.
  void Rebuild() REQUIRES(mu_);
  void Publish() REQUIRES(mu_);

  Epochs& epochs_;
  HolderSets& sets_;
  const OpenHolders& open_;
  std::atomic<const Table*> table_;  // what readers see: owned_, always
  std::atomic<int64_t> published_live_{0};
  std::atomic<size_t> published_bytes_{0};

  mutable Mutex mu_;
  std::unique_ptr<Table> owned_ GUARDED_BY(mu_);
  Limbo<std::unique_ptr<Table>> limbo_ GUARDED_BY(mu_);
  size_t live_ GUARDED_BY(mu_) = 0;
  size_t used_ GUARDED_BY(mu_) = 0;
  uint64_t generation_ GUARDED_BY(mu_) = 1;
};

}  // namespace qanat::router
