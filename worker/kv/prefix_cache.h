// Full blocks by the hash of all tokens up to their end.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/hash/block_hash.h"
#include "worker/kv/block_pool.h"

namespace qanat::kv {

// What a full block is known by. The hash finds it; the rest proves it, so that a collision of hashes costs
// time and never shows one caller another's prefix.
struct BlockKey {
  hash::BlockHash hash = 0;
  const hash::Namespace& cache_namespace;
  BlockId parent = kNoBlock;  // the block before it, kNoBlock for the first
  absl::Span<const TokenId> tokens;
};

// What: remembers which blocks hold which prefixes ("resident" blocks), referenced or not.
// Lives shorter than `pool`. Threads: one. Errors: none. Everything is O(1).
//
// Invariants (residency is prefix-closed):
//  1. A resident block is cached in the pool, and no other block is.
//  2. The parent of a resident block is resident, in the generation that the block was computed upon.
//  3. A block counts its resident children; only one without any is forgotten.
//  4. In the pool's order a block comes after its children.
class PrefixCache {
 public:
  enum class Found : uint8_t {
    kNothing,
    kSame,   // a block with these tokens upon this parent
    kOther,  // the hash is taken by other tokens or another parent
  };
  struct Result {
    Found found = Found::kNothing;
    BlockId block = kNoBlock;
  };

  PrefixCache(BlockPool& pool, int32_t block_size);

  Result Find(const BlockKey& key) const;

  // REQUIRES: Find(key) is kNothing; key.parent is resident or kNoBlock; `block` is referenced and holds the
  // keys and values of key.tokens.
  void Insert(const BlockKey& key, BlockId block);

  // The block's hash, which names nothing any more. REQUIRES: `block` is resident and has no resident
  // children.
  hash::BlockHash Forget(BlockId block);

  int32_t size() const { return static_cast<int32_t>(by_hash_.size()); }  // resident blocks

  void CheckInvariants() const;

 private:
  struct Entry {
    hash::BlockHash hash = 0;
    hash::Namespace cache_namespace;
    BlockId parent = kNoBlock;
    uint64_t parent_generation = 0;
    int32_t children = 0;
  };

  absl::Span<TokenId> Tokens(BlockId block) {
    return absl::MakeSpan(tokens_).subspan(static_cast<size_t>(block) * block_size_, block_size_);
  }
  absl::Span<const TokenId> Tokens(BlockId block) const {
    return absl::MakeConstSpan(tokens_).subspan(static_cast<size_t>(block) * block_size_, block_size_);
  }
  bool Matches(BlockId block, const BlockKey& key) const;

  BlockPool& pool_;
  const int32_t block_size_;
  absl::flat_hash_map<hash::BlockHash, BlockId> by_hash_;
  std::vector<Entry> entries_;   // by block; of resident blocks only
  std::vector<TokenId> tokens_;  // [num_blocks, block_size]
};

}  // namespace qanat::kv
