// Which physical block holds which tokens of one history.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/hash/block_hash.h"
#include "worker/kv/block_pool.h"

namespace qanat::kv {

// What: the blocks of one token history, in order, and the hashes of its full blocks. Owned by whoever owns
// the tokens; filled by KvManager alone. Owns: one reference to each block, released deepest first. The
// hashes outlive the blocks: a history that is computed again is not hashed again. Lives shorter than the
// pool. Threads: one. Errors: none.
class BlockTable {
 public:
  // `root` is the hash before the first block, BlockHasher::Root(cache_namespace).
  BlockTable(const hash::Namespace& cache_namespace, hash::BlockHash root)
      : cache_namespace_(cache_namespace), root_(root) {}
  ~BlockTable() { Clear(); }
  BlockTable(BlockTable&&) = default;
  BlockTable& operator=(BlockTable&&) = delete;

  // Block i holds tokens [i * block_size, (i + 1) * block_size). Valid until the next change of the table.
  absl::Span<const BlockId> blocks() const { return ids_; }
  int32_t size() const { return static_cast<int32_t>(ids_.size()); }
  // Of the leading blocks, how many are resident in the prefix cache.
  int32_t num_published() const { return num_published_; }
  // Of the leading blocks, how many it found when it began: others may hold them, too.
  int32_t num_found() const { return num_found_; }

 private:
  friend class KvManager;

  void Append(BlockRef block) {
    ids_.push_back(block.id());
    refs_.push_back(std::move(block));
  }
  // The old block.
  BlockRef Replace(int32_t i, BlockRef block) {
    ids_[i] = block.id();
    std::swap(refs_[i], block);
    return block;
  }
  BlockRef RemoveLast() {
    BlockRef last = std::move(refs_.back());
    refs_.pop_back();
    ids_.pop_back();
    return last;
  }
  void Clear() {
    while (!refs_.empty()) RemoveLast();
    num_published_ = 0;
    num_found_ = 0;
    publishing_ = true;
  }

  hash::Namespace cache_namespace_;
  hash::BlockHash root_;
  std::vector<hash::BlockHash> hashes_;  // of the leading full blocks, as far as anyone asked
  std::vector<BlockRef> refs_;
  std::vector<BlockId> ids_;  // of refs_: what a device reads
  int32_t num_published_ = 0;
  int32_t num_found_ = 0;
  bool publishing_ = true;  // false: a block of this history could not be published, so no later one is
};

}  // namespace qanat::kv
