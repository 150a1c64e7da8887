#include "router/index/pending_credits.h"

#include <algorithm>

#include "common/base/check.h"

namespace qanat::router {

using hash::BlockHash;

PendingCredits::PendingCredits(size_t most_entries)
    : most_in_shard_((most_entries + kShards - 1) / kShards) {}

PendingCredits::~PendingCredits() { QANAT_CHECK(entries() == 0) << "a guard is left"; }

PendingCredits::Guard PendingCredits::Credit(WorkerId worker, absl::Span<const BlockHash> blocks) {
  std::vector<BlockHash> credited;
  credited.reserve(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    Shard& shard = shards_[ShardOf(blocks[i])];
    MutexLock lock(shard.mu);
    const Key key(blocks[i], worker);
    if (shard.counts.size() >= most_in_shard_ && !shard.counts.contains(key)) {
      // Not those behind either: who has a block has its parents.
      refused_.fetch_add(static_cast<int64_t>(blocks.size() - i), std::memory_order_relaxed);
      break;
    }
    ++shard.counts[key];
    credited.push_back(blocks[i]);
  }
  return Guard(this, worker, std::move(credited));
}

int32_t PendingCredits::Extend(WorkerId worker, absl::Span<const BlockHash> prompt, int32_t depth) const {
  const auto end = static_cast<int32_t>(prompt.size());
  const auto has = [&](int32_t block) { return Has(worker, prompt[static_cast<size_t>(block)]); };
  if (depth >= end || !has(depth)) return depth;
  // The worker is credited with the block before `low`, and not with block `high`: steps that double, then
  // halves.
  int32_t low = depth + 1;
  int32_t step = 1;
  while (low + step <= end && has(low + step - 1)) low += step, step *= 2;
  int32_t high = std::min(low + step - 1, end);
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    has(middle) ? low = middle + 1 : high = middle;
  }
  return low;
}

int64_t PendingCredits::entries() const {
  int64_t entries = 0;
  for (const Shard& shard : shards_) {
    MutexLock lock(shard.mu);
    entries += static_cast<int64_t>(shard.counts.size());
  }
  return entries;
}

bool PendingCredits::Has(WorkerId worker, BlockHash hash) const {
  const Shard& shard = shards_[ShardOf(hash)];
  MutexLock lock(shard.mu);
  return shard.counts.contains(Key(hash, worker));
}

void PendingCredits::Release(WorkerId worker, absl::Span<const BlockHash> blocks) {
  for (BlockHash block : blocks) {
    Shard& shard = shards_[ShardOf(block)];
    MutexLock lock(shard.mu);
    const auto found = shard.counts.find(Key(block, worker));
    if (--found->second == 0) shard.counts.erase(found);
  }
}

}  // namespace qanat::router
