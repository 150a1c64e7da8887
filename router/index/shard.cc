#include "router/index/shard.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace qanat::router {
namespace {

using hash::BlockHash;

constexpr size_t kFewestSlots = 16;

// A new table is full to 3/5: between the bounds of 3/4 and 1/2, and 27 bytes a block.
size_t SlotsFor(size_t blocks) { return std::max(kFewestSlots, (blocks * 5 + 2) / 3); }

bool TooFull(size_t used, size_t slots) { return used * 4 > slots * 3; }
bool TooEmpty(size_t live, size_t slots) { return slots > kFewestSlots && live * 2 < slots; }

}  // namespace

Shard::Shard(Epochs& epochs, HolderSets& sets, const OpenHolders& open)
    : epochs_(epochs), sets_(sets), open_(open), owned_(std::make_unique<Table>(kFewestSlots)) {
  table_.store(owned_.get());
  published_bytes_.store(kFewestSlots * sizeof(Slot), std::memory_order_relaxed);
}

uint64_t Shard::Find(BlockHash hash, uint64_t mix) const {
  const Table& table = *table_.load();
  for (size_t i = table.Home(mix);;) {
    const Slot& slot = table.slots[i];
    const BlockHash seen = slot.hash.load();
    const uint64_t word = slot.holders.load();
    if (word == holders::kEmpty) return holders::kEmpty;
    if (seen != hash || word == holders::kTombstone) {
      i = table.Next(i);
    } else if (slot.hash.load() == hash) {
      return word;
    }  // else the slot was given to another block in between: look again
  }
}

bool Shard::Add(BlockHash hash, uint64_t mix, Lane lane) {
  MutexLock lock(mu_);
  Slot* slot = FindSlot(hash, mix);
  if (slot == nullptr) {
    Insert(hash, mix, lane);
    return true;
  }
  const uint64_t word = slot->holders.load(std::memory_order_relaxed);
  const uint64_t with = sets_.With(word, lane);
  if (with == word) return false;
  Replace(*slot, with);
  return true;
}

bool Shard::Remove(BlockHash hash, uint64_t mix, Lane lane) {
  MutexLock lock(mu_);
  Slot* slot = FindSlot(hash, mix);
  if (slot == nullptr) return false;
  const uint64_t word = slot->holders.load(std::memory_order_relaxed);
  const uint64_t without = sets_.Without(word, lane);
  if (without == word) return false;
  Replace(*slot, without);
  if (TooEmpty(live_, owned_->size)) Rebuild();
  return true;
}

bool Shard::Sweep(Cursor& cursor, int64_t& slots) {
  MutexLock lock(mu_);
  if (cursor.generation == 0) cursor.generation = generation_;
  // A table made since has no slot of those that were closed at the beginning.
  while (cursor.generation == generation_ && cursor.position < owned_->size) {
    if (slots-- <= 0) return false;
    Slot& slot = owned_->slots[cursor.position++];
    const uint64_t word = slot.holders.load(std::memory_order_relaxed);
    if (!holders::IsBlock(word)) continue;
    const uint64_t without = WithoutClosed(word);
    if (without != word) Replace(slot, without);
  }
  if (TooEmpty(live_, owned_->size)) Rebuild();
  return true;
}

Shard::Slot* Shard::FindSlot(BlockHash hash, uint64_t mix) {
  for (size_t i = owned_->Home(mix);; i = owned_->Next(i)) {
    Slot& slot = owned_->slots[i];
    const uint64_t word = slot.holders.load(std::memory_order_relaxed);
    if (word == holders::kEmpty) return nullptr;
    if (word != holders::kTombstone && slot.hash.load(std::memory_order_relaxed) == hash) return &slot;
  }
}

void Shard::Insert(BlockHash hash, uint64_t mix, uint64_t word) {
  if (TooFull(used_ + 1, owned_->size)) Rebuild();
  size_t i = owned_->Home(mix);
  while (holders::IsBlock(owned_->slots[i].holders.load(std::memory_order_relaxed))) i = owned_->Next(i);
  Slot& slot = owned_->slots[i];
  if (slot.holders.load(std::memory_order_relaxed) == holders::kEmpty) ++used_;
  ++live_;
  slot.hash.store(hash);  // before the holders: who reads those finds this block
  slot.holders.store(word);
  Publish();
}

void Shard::Replace(Slot& slot, uint64_t word) {
  const uint64_t old = slot.holders.load(std::memory_order_relaxed);
  if (word == holders::kEmpty) {
    Erase(slot);
  } else {
    slot.holders.store(word);
  }
  sets_.Release(old);
}

void Shard::Erase(Slot& slot) {
  --live_;
  Publish();
  const Table& table = *owned_;
  size_t i = static_cast<size_t>(&slot - table.slots.get());
  if (table.slots[table.Next(i)].holders.load(std::memory_order_relaxed) != holders::kEmpty) {
    slot.holders.store(holders::kTombstone);
    return;
  }
  // No probe that passes here ends behind: it and the tombstones before it can be empty.
  do {
    table.slots[i].holders.store(holders::kEmpty);
    --used_;
    i = table.Previous(i);
  } while (table.slots[i].holders.load(std::memory_order_relaxed) == holders::kTombstone);
}

uint64_t Shard::WithoutClosed(uint64_t word) const {
  const auto is_closed = [this](Lane lane) { return !open_.IsOpen(lane); };
  if (!holders::Any(word, is_closed)) return word;
  std::vector<Lane> lanes = holders::Lanes(word);
  lanes.erase(std::remove_if(lanes.begin(), lanes.end(), is_closed), lanes.end());
  return sets_.Make(lanes);
}

void Shard::Rebuild() {
  std::vector<std::pair<BlockHash, uint64_t>> kept;
  std::vector<uint64_t> dropped;  // words that only the old table names
  kept.reserve(live_);
  for (size_t i = 0; i < owned_->size; ++i) {
    const Slot& slot = owned_->slots[i];
    const uint64_t word = slot.holders.load(std::memory_order_relaxed);
    if (!holders::IsBlock(word)) continue;
    const uint64_t without = WithoutClosed(word);
    if (without != word) dropped.push_back(word);
    if (without != holders::kEmpty) kept.emplace_back(slot.hash.load(std::memory_order_relaxed), without);
  }
  auto table = std::make_unique<Table>(SlotsFor(kept.size() + 1));
  for (const auto& [hash, word] : kept) {
    size_t i = table->Home(hash::Mix(hash));
    while (table->slots[i].holders.load(std::memory_order_relaxed) != holders::kEmpty) i = table->Next(i);
    table->slots[i].hash.store(hash, std::memory_order_relaxed);
    table->slots[i].holders.store(word, std::memory_order_relaxed);
  }
  table_.store(table.get());
  std::swap(owned_, table);
  limbo_.Put(std::move(table), epochs_);
  limbo_.Collect(epochs_);
  // Not before: a reader who came meanwhile might have met them in the old table.
  for (uint64_t word : dropped) sets_.Release(word);
  live_ = used_ = kept.size();
  ++generation_;
  Publish();
}

void Shard::Publish() {
  published_live_.store(static_cast<int64_t>(live_), std::memory_order_relaxed);
  published_bytes_.store(owned_->size * sizeof(Slot), std::memory_order_relaxed);
}

void Shard::CheckInvariants() const {
  MutexLock lock(mu_);
  const Table& table = *owned_;
  size_t live = 0;
  size_t used = 0;
  for (size_t i = 0; i < table.size; ++i) {
    const uint64_t word = table.slots[i].holders.load();
    const uint64_t next = table.slots[table.Next(i)].holders.load();
    used += word != holders::kEmpty ? 1 : 0;
    QANAT_CHECK(word != holders::kTombstone || next != holders::kEmpty) << "a tombstone before an empty slot";
    if (!holders::IsBlock(word)) continue;
    ++live;
    const BlockHash hash = table.slots[i].hash.load();
    for (size_t j = table.Home(hash::Mix(hash)); j != i; j = table.Next(j)) {
      const uint64_t before = table.slots[j].holders.load();
      QANAT_CHECK(before != holders::kEmpty) << "a block behind an empty slot";
      QANAT_CHECK(before == holders::kTombstone || table.slots[j].hash.load() != hash) << "a block twice";
    }
  }
  QANAT_CHECK(live == live_ && used == used_) << "counts of slots";
  QANAT_CHECK(!TooFull(used_, table.size) && !TooEmpty(live_, table.size)) << "load of the table";
}

}  // namespace qanat::router
