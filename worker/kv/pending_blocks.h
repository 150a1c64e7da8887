// Full blocks that steps in flight are computing.
#pragma once

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/hash/block_hash.h"
#include "worker/kv/prefix_cache.h"

namespace qanat::kv {

// A block that a step in flight fills, and what it will be known by.
struct PendingBlock {
  hash::BlockHash hash;
  BlockId block;
};

// What: finds a block between the launch of the step that fills it and that step's end. A later step on the
// same device runs after it, so it may read the block; nobody outside may hear of it, since the step may
// fail. Owns no reference: whoever adds a block sees to it that it is held until its step was collected.
// Threads: one. Errors: none.
class PendingBlocks {
 public:
  // Finds nothing new when the hash is taken: two compute the same block, or hashes collide.
  void Add(const BlockKey& key, BlockId block) {
    by_hash_.try_emplace(key.hash, Entry{block, key.parent, key.cache_namespace,
                                         std::vector<TokenId>(key.tokens.begin(), key.tokens.end())});
  }

  // The block with these tokens upon this parent, or kNoBlock.
  BlockId Find(const BlockKey& key) const {
    const auto it = by_hash_.find(key.hash);
    if (it == by_hash_.end()) return kNoBlock;
    const Entry& entry = it->second;
    const bool same =
        entry.parent == key.parent && entry.cache_namespace == key.cache_namespace &&
        std::equal(entry.tokens.begin(), entry.tokens.end(), key.tokens.begin(), key.tokens.end());
    return same ? entry.block : kNoBlock;
  }
  bool Contains(hash::BlockHash hash) const { return by_hash_.contains(hash); }

  // Their step has ended: they are no longer found here.
  void Remove(absl::Span<const PendingBlock> blocks) {
    for (const PendingBlock& pending : blocks) {
      const auto it = by_hash_.find(pending.hash);
      if (it != by_hash_.end() && it->second.block == pending.block) by_hash_.erase(it);
    }
  }

  // They will never hold what they were to hold, nor will what is computed upon them. All these blocks.
  absl::flat_hash_set<BlockId> Withdraw(absl::Span<const PendingBlock> blocks) {
    Remove(blocks);
    absl::flat_hash_set<BlockId> withdrawn;
    for (const PendingBlock& pending : blocks) withdrawn.insert(pending.block);
    const auto built_upon = [&](const auto& entry) {
      if (!withdrawn.contains(entry.second.parent)) return false;
      withdrawn.insert(entry.second.block);
      return true;
    };
    while (absl::erase_if(by_hash_, built_upon) > 0) {
    }
    return withdrawn;
  }

  int32_t size() const { return static_cast<int32_t>(by_hash_.size()); }

 private:
  struct Entry {
    BlockId block;
    BlockId parent;
    hash::Namespace cache_namespace;
    std::vector<TokenId> tokens;
  };

  absl::flat_hash_map<hash::BlockHash, Entry> by_hash_;
};

}  // namespace qanat::kv
