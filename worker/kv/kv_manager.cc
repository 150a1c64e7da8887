#include "worker/kv/kv_manager.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace qanat::kv {

KvManager::KvManager(int32_t num_blocks, bool prefix_cache, const hash::BlockHasher& hasher, Layout layout)
    : hasher_(hasher),
      block_size_(hasher.block_size()),
      prefix_cache_enabled_(prefix_cache),
      placement_(MakePlacement(layout)),
      pool_(num_blocks, placement_->MakeOrder(num_blocks)),
      cache_(pool_, block_size_) {
  QANAT_CHECK(!prefix_cache || layout == Layout::kPaged) << "a run of neighbours shares no block";
}

BlockTable KvManager::NewTable(const hash::Namespace& cache_namespace) const {
  return BlockTable(cache_namespace, hasher_.Root(cache_namespace));
}

absl::Span<const hash::BlockHash> KvManager::Hashes(BlockTable& table,
                                                    absl::Span<const TokenId> tokens) const {
  const size_t full = tokens.size() / block_size_;
  std::vector<hash::BlockHash>& hashes = table.hashes_;
  if (hashes.size() < full) {
    const hash::BlockHash parent = hashes.empty() ? table.root_ : hashes.back();
    hasher_.HashBlocks(parent, tokens.subspan(hashes.size() * block_size_), hashes);
  }
  return absl::MakeConstSpan(hashes).first(full);
}

BlockKey KvManager::KeyOf(const BlockTable& table, absl::Span<const TokenId> tokens, int32_t i,
                          BlockId parent) const {
  return {table.hashes_[i], table.cache_namespace_, parent,
          tokens.subspan(static_cast<size_t>(i) * block_size_, block_size_)};
}

PrefixMatch KvManager::Match(BlockTable& table, absl::Span<const TokenId> tokens) const {
  PrefixMatch match;
  if (!prefix_cache_enabled_) return match;
  const int32_t limit = static_cast<int32_t>((tokens.size() - 1) / block_size_);
  Hashes(table, tokens);
  for (int32_t i = 0; i < limit; ++i) {
    const BlockId parent = i == 0 ? kNoBlock : match.blocks.back();
    const BlockKey key = KeyOf(table, tokens, i, parent);
    const PrefixCache::Result resident = cache_.Find(key);
    if (resident.found == PrefixCache::Found::kOther) break;
    if (resident.found == PrefixCache::Found::kSame) {
      match.blocks.push_back(resident.block);
      ++match.num_resident;
      if (pool_.count(resident.block) == 0) ++match.num_unreferenced;
      continue;
    }
    const BlockId pending = pending_.Find(key);
    if (pending == kNoBlock) break;
    match.blocks.push_back(pending);
  }
  return match;
}

void KvManager::Attach(BlockTable& table, const PrefixMatch& match) {
  QANAT_CHECK(table.size() == 0);
  for (const BlockId block : match.blocks) table.Append(pool_.Share(block));
  table.num_published_ = match.num_resident;
  table.num_found_ = table.size();
}

bool KvManager::Reserve(BlockTable& table, int32_t num_tokens) {
  const int32_t missing = BlocksFor(num_tokens) - table.size();
  if (missing <= 0) return true;
  if (!placement_->Fits(missing, 0, pool_.num_unreferenced())) return false;
  BlockId last = kNoBlock;
  for (int32_t i = 0; i < missing; ++i) {
    last = placement_->Next(last, missing);
    table.Append(TakeBlock(last));
  }
  return true;
}

void KvManager::Trim(BlockTable& table, int32_t num_tokens) {
  const int32_t size = BlocksFor(num_tokens);
  QANAT_CHECK(table.num_published_ <= size);
  while (table.size() > size) table.RemoveLast();
}

BlockRef KvManager::TakeBlock(BlockId id) {
  if (pool_.cached(id)) {
    change_.Remove(cache_.Forget(id));
    ++num_evictions_;
  }
  return pool_.Take(id);
}

void KvManager::Release(BlockTable& table, bool flying) {
  if (flying) {
    while (table.size() > 0) retired_.back().push_back(table.RemoveLast());
  }
  table.Clear();
}

void KvManager::OnCollect() {
  for (BlockRef& block : retired_.front()) BlockRef(std::move(block));
  retired_.pop_front();
}

bool KvManager::HasRetired() const {
  return std::any_of(retired_.begin(), retired_.end(), [](const auto& blocks) { return !blocks.empty(); });
}

std::vector<PendingBlock> KvManager::Announce(BlockTable& table, absl::Span<const TokenId> tokens,
                                              int32_t first) {
  std::vector<PendingBlock> announced;
  if (!prefix_cache_enabled_ || !table.publishing_) return announced;
  const auto full = static_cast<int32_t>(tokens.size()) / block_size_;
  if (first / block_size_ < full) Hashes(table, tokens);
  for (int32_t i = first / block_size_; i < full; ++i) {
    pending_.Add(KeyOf(table, tokens, i, i == 0 ? kNoBlock : table.ids_[i - 1]), table.ids_[i]);
    announced.push_back({table.hashes_[i], table.ids_[i]});
  }
  return announced;
}

void KvManager::Commit(BlockTable& table, absl::Span<const TokenId> tokens, bool flying) {
  if (!prefix_cache_enabled_) return;
  const int32_t full = static_cast<int32_t>(tokens.size()) / block_size_;
  if (table.num_published_ >= full || !table.publishing_) return;
  Hashes(table, tokens);
  while (table.num_published_ < full && table.publishing_) {
    table.publishing_ = Publish(table, tokens, table.num_published_, flying);
    if (table.publishing_) ++table.num_published_;
  }
}

bool KvManager::Publish(BlockTable& table, absl::Span<const TokenId> tokens, int32_t i, bool flying) {
  const BlockKey key = KeyOf(table, tokens, i, i == 0 ? kNoBlock : table.ids_[i - 1]);
  const PrefixCache::Result resident = cache_.Find(key);
  switch (resident.found) {
    case PrefixCache::Found::kNothing:
      cache_.Insert(key, table.ids_[i]);
      change_.Store(key.hash);
      return true;
    case PrefixCache::Found::kSame:
      if (resident.block == table.ids_[i]) return true;
      // Others found this copy, and hold what was computed upon it: their references would not keep the other
      // one, so nothing may be published upon that from here.
      if (pool_.count(table.ids_[i]) > 1) return false;
      // Two copies of one prefix would let children hang on the one that is not resident.
      if (BlockRef own = table.Replace(i, pool_.Share(resident.block)); flying) {
        retired_.back().push_back(std::move(own));
      }
      return true;
    case PrefixCache::Found::kOther:
      return false;
  }
  return false;
}

void KvManager::CheckInvariants(absl::Span<const BlockTable* const> tables) const {
  pool_.CheckInvariants();
  cache_.CheckInvariants();
  std::vector<int32_t> counts(pool_.num_blocks());
  for (const BlockTable* table : tables) {
    for (const BlockId id : table->blocks()) ++counts[id];
  }
  for (const std::vector<BlockRef>& retired : retired_) {
    for (const BlockRef& block : retired) ++counts[block.id()];
  }
  QANAT_CHECK(!retired_.empty() || pending_.size() == 0) << "blocks are pending and no step computes them";
  for (BlockId id = 0; id < pool_.num_blocks(); ++id) {
    QANAT_CHECK(counts[id] == pool_.count(id))
        << "block " << id << " counts " << pool_.count(id) << " references, tables hold " << counts[id];
  }
}

void KvManager::CheckTable(const BlockTable& table, absl::Span<const TokenId> tokens) const {
  for (int32_t i = 0; i < table.num_published_; ++i) {
    const BlockKey key = KeyOf(table, tokens, i, i == 0 ? kNoBlock : table.ids_[i - 1]);
    const PrefixCache::Result result = cache_.Find(key);
    QANAT_CHECK(result.found == PrefixCache::Found::kSame && result.block == table.ids_[i])
        << "block " << i << " of a table is not what the cache says it is";
  }
  for (int32_t i = std::max(table.num_published_, table.num_found_); i < table.size(); ++i) {
    // Those who found it while it was pending may keep it.
    QANAT_CHECK(!retired_.empty() || !table.publishing_ || !Shared(table.ids_[i]))
        << "block " << i << " of a table is shared without being published";
  }
}

}  // namespace qanat::kv
