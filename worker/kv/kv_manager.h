// The one door to the KV cache: a span of tokens gets its block table.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/hash/block_hash.h"
#include "common/hash/net_change.h"
#include "worker/kv/block_pool.h"
#include "worker/kv/block_table.h"
#include "worker/kv/pending_blocks.h"
#include "worker/kv/placement.h"
#include "worker/kv/prefix_cache.h"

namespace qanat::kv {

// The longest cached prefix of some tokens. Names blocks without referencing them: use it before the cache
// changes.
struct PrefixMatch {
  std::vector<BlockId> blocks;
  int32_t num_resident = 0;      // of these, the leading ones; steps in flight compute the others
  int32_t num_unreferenced = 0;  // of these, in the free list: attaching them takes them out of it
};

// What: hands out blocks, finds cached prefixes, publishes what was computed. Knows tokens and blocks, never
// requests. Docs: docs/engine.md, "Blocks and prefixes".
// Owns: pool and prefix cache; outlives every table. `hasher` is copied.
// Threads: one. Errors: a full pool is an answer (Reserve), not an error.
//
// Every function that takes a table and tokens REQUIRES that the tokens are the table's history, or a leading
// part of it.
class KvManager {
 public:
  // REQUIRES: hasher.block_size() > 0, num_blocks > 0; no `prefix_cache` with Layout::kContiguous. Without
  // `prefix_cache` nothing is published or found.
  KvManager(int32_t num_blocks, bool prefix_cache, const hash::BlockHasher& hasher,
            Layout layout = Layout::kPaged);

  BlockTable NewTable(const hash::Namespace& cache_namespace) const;

  // At most (tokens.size() - 1) / block_size blocks: one token is left to compute. REQUIRES: tokens not
  // empty.
  PrefixMatch Match(BlockTable& table, absl::Span<const TokenId> tokens) const;

  // The table begins with the blocks of `match`. REQUIRES: the table is empty; `match` is fresh.
  void Attach(BlockTable& table, const PrefixMatch& match);

  // How many tokens a table has blocks for that is to hold `num_tokens` now, and `longest` at most ever:
  // what to reserve for it.
  int32_t Held(int32_t num_tokens, int32_t longest) const { return placement_->Held(num_tokens, longest); }
  // Whether a table that begins with `match` could take `num_blocks` behind it, while other tables may still
  // come for `promised`.
  bool Fits(int32_t num_blocks, int32_t promised, const PrefixMatch& match) const {
    return placement_->Fits(num_blocks, promised, pool_.num_unreferenced() - match.num_unreferenced);
  }

  // Adds blocks until the table holds `num_tokens`. False, and nothing changes, when the free list has too
  // few, or no run of neighbours where it must be one. Reuses cached blocks when nothing else is left.
  bool Reserve(BlockTable& table, int32_t num_tokens);

  // Gives back the blocks behind the first `num_tokens`. REQUIRES: none of them is published.
  void Trim(BlockTable& table, int32_t num_tokens);

  // Keys and values of `tokens` exist: publishes the full blocks among them, or adopts those that others
  // published first.
  // `flying`: as in Release, of the table's own copy of what it adopts.
  void Commit(BlockTable& table, absl::Span<const TokenId> tokens, bool flying = false);

  // Gives all blocks back, the deepest first. Published ones stay to be hit until they are reused. `flying`:
  // steps in flight read or write them, so they are nobody's only when all these are collected.
  void Release(BlockTable& table, bool flying = false);

  // Steps in flight, for devices that run some in a row: between Launch and Collect of a step the blocks that
  // it fills can be hit, and no block that it uses is reused. One call each a step, oldest first.
  void OnLaunch() { retired_.emplace_back(); }
  void OnCollect();
  // The step being launched computes the last of `tokens`, from position `first` on: the full blocks among
  // them are pending. Until that step is collected the caller keeps what this returns, for Settle or
  // Withdraw.
  std::vector<PendingBlock> Announce(BlockTable& table, absl::Span<const TokenId> tokens, int32_t first);
  // They are computed.
  void Settle(absl::Span<const PendingBlock> blocks) { pending_.Remove(blocks); }
  // They are not, and will not be. These blocks and all that are being computed upon them: whoever holds one
  // has to start over.
  absl::flat_hash_set<BlockId> Withdraw(absl::Span<const PendingBlock> blocks) {
    return pending_.Withdraw(blocks);
  }
  bool IsPending(hash::BlockHash hash) const { return pending_.Contains(hash); }
  // Blocks that wait for nothing but steps in flight to be reused.
  bool HasRetired() const;

  // The hashes of all full blocks of `tokens`. Valid until the next call with this table.
  absl::Span<const hash::BlockHash> Hashes(BlockTable& table, absl::Span<const TokenId> tokens) const;

  int32_t BlocksFor(int64_t num_tokens) const {
    return static_cast<int32_t>((num_tokens + block_size_ - 1) / block_size_);
  }
  // How many tokens the table could hold with all that the free list has.
  int64_t Room(const BlockTable& table) const {
    return static_cast<int64_t>(table.size() + pool_.num_unreferenced()) * block_size_;
  }
  // Only the table's own: nobody else references it.
  bool Exclusive(BlockId block) const { return pool_.count(block) == 1; }
  // Others reference it, or may: it must not be written.
  bool Shared(BlockId block) const { return pool_.count(block) > 1 || pool_.cached(block); }

  int32_t block_size() const { return block_size_; }
  bool prefix_cache() const { return prefix_cache_enabled_; }
  const BlockPool& pool() const { return pool_; }
  int32_t num_resident() const { return cache_.size(); }
  // What became resident and what is resident no more since the last call. O(what changed).
  hash::SetDelta TakeDelta() { return change_.Take(); }
  // Cached blocks that were reused for other contents, ever.
  int64_t num_evictions() const { return num_evictions_; }

  // The invariants of pool and cache; REQUIRES that `tables` are all that live.
  void CheckInvariants(absl::Span<const BlockTable* const> tables) const;
  // Every published block of the table holds the tokens it stands for.
  void CheckTable(const BlockTable& table, absl::Span<const TokenId> tokens) const;

 private:
  BlockKey KeyOf(const BlockTable& table, absl::Span<const TokenId> tokens, int32_t i, BlockId parent) const;
  bool Publish(BlockTable& table, absl::Span<const TokenId> tokens, int32_t i, bool flying);
  BlockRef TakeBlock(BlockId id);

  const hash::BlockHasher hasher_;
  const int32_t block_size_;
  const bool prefix_cache_enabled_;
  const std::unique_ptr<Placement> placement_;
  BlockPool pool_;
  PrefixCache cache_;
  PendingBlocks pending_;
  // For each step in flight, the oldest first: what becomes nobody's when it is collected, in this order.
  std::deque<std::vector<BlockRef>> retired_;
  hash::NetChange change_;  // of the resident hashes, not yet taken
  int64_t num_evictions_ = 0;
};

}  // namespace qanat::kv
