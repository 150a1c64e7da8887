#include "worker/kv/prefix_cache.h"

#include <algorithm>

#include "common/base/check.h"

namespace qanat::kv {

PrefixCache::PrefixCache(BlockPool& pool, int32_t block_size)
    : pool_(pool),
      block_size_(block_size),
      entries_(pool.num_blocks()),
      tokens_(static_cast<size_t>(pool.num_blocks()) * block_size) {}

bool PrefixCache::Matches(BlockId block, const BlockKey& key) const {
  const Entry& entry = entries_[block];
  if (entry.parent != key.parent) return false;
  // Equal parents have equal namespaces: only a first block has none to vouch for it.
  if (key.parent == kNoBlock ? entry.cache_namespace != key.cache_namespace
                             : entry.parent_generation != pool_.generation(key.parent)) {
    return false;
  }
  const absl::Span<const TokenId> tokens = Tokens(block);
  return std::equal(tokens.begin(), tokens.end(), key.tokens.begin(), key.tokens.end());
}

PrefixCache::Result PrefixCache::Find(const BlockKey& key) const {
  const auto it = by_hash_.find(key.hash);
  if (it == by_hash_.end()) return {};
  if (!Matches(it->second, key)) return {Found::kOther, kNoBlock};
  return {Found::kSame, it->second};
}

void PrefixCache::Insert(const BlockKey& key, BlockId block) {
  QANAT_DCHECK(static_cast<int32_t>(key.tokens.size()) == block_size_);
  const bool inserted = by_hash_.emplace(key.hash, block).second;
  QANAT_CHECK(inserted) << "a hash names one block";
  Entry& entry = entries_[block];
  entry = {key.hash, key.cache_namespace, key.parent, 0, 0};
  if (key.parent != kNoBlock) {
    QANAT_CHECK(pool_.cached(key.parent)) << "block " << block << " would be resident without its parent";
    entry.parent_generation = pool_.generation(key.parent);
    ++entries_[key.parent].children;
  }
  std::copy(key.tokens.begin(), key.tokens.end(), Tokens(block).begin());
  pool_.SetCached(block, true);
}

hash::BlockHash PrefixCache::Forget(BlockId block) {
  const Entry& entry = entries_[block];
  QANAT_CHECK(entry.children == 0) << "block " << block << " has resident children";
  const size_t erased = by_hash_.erase(entry.hash);
  QANAT_CHECK(erased == 1) << "block " << block << " is not resident";
  if (entry.parent != kNoBlock) --entries_[entry.parent].children;
  pool_.SetCached(block, false);
  return entry.hash;
}

void PrefixCache::CheckInvariants() const {
  std::vector<int32_t> children(entries_.size());
  int32_t resident = 0;
  for (BlockId id = 0; id < pool_.num_blocks(); ++id) {
    if (!pool_.cached(id)) continue;
    ++resident;
    const Entry& entry = entries_[id];
    const auto it = by_hash_.find(entry.hash);
    QANAT_CHECK(it != by_hash_.end() && it->second == id) << "block " << id << " is cached, but not resident";
    if (entry.parent == kNoBlock) continue;
    ++children[entry.parent];
    QANAT_CHECK(pool_.cached(entry.parent) && pool_.generation(entry.parent) == entry.parent_generation)
        << "the parent of resident block " << id << " is gone";
  }
  QANAT_CHECK(resident == size());
  std::vector<int32_t> place(entries_.size(), -1);
  int32_t next_place = 0;
  for (const BlockId id : pool_.order().ToVector()) place[id] = next_place++;
  for (BlockId id = 0; id < pool_.num_blocks(); ++id) {
    if (!pool_.cached(id)) continue;
    const Entry& entry = entries_[id];
    QANAT_CHECK(entry.children == children[id]) << "block " << id << " miscounts its children";
    if (entry.parent == kNoBlock || place[entry.parent] < 0) continue;
    QANAT_CHECK(place[id] >= 0) << "block " << id << " is referenced without its parent";
    QANAT_CHECK(place[id] < place[entry.parent]) << "block " << id << " would outlive its parent";
  }
}

}  // namespace qanat::kv
