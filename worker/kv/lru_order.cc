#include "worker/kv/lru_order.h"

#include "common/base/check.h"

namespace qanat::kv {

LruOrder::LruOrder(int32_t num_blocks) : end_(num_blocks), links_(num_blocks + 1) {
  links_[end_] = {end_, end_};
}

void LruOrder::Add(BlockId id, bool cached) {
  QANAT_DCHECK(links_[id].next == kNoBlock) << "block " << id << " is in the order already";
  const BlockId before = cached ? links_[end_].previous : end_;
  const BlockId after = links_[before].next;
  links_[id] = {before, after};
  links_[before].next = id;
  links_[after].previous = id;
  ++size_;
}

void LruOrder::Remove(BlockId id) {
  QANAT_DCHECK(links_[id].next != kNoBlock) << "block " << id << " is not in the order";
  const Links links = links_[id];
  links_[links.previous].next = links.next;
  links_[links.next].previous = links.previous;
  links_[id] = {};
  --size_;
}

BlockId LruOrder::Next() const {
  QANAT_DCHECK(size_ > 0);
  return links_[end_].next;
}

std::vector<BlockId> LruOrder::ToVector() const {
  std::vector<BlockId> ids;
  ids.reserve(size_);
  for (BlockId id = links_[end_].next; id != end_; id = links_[id].next) ids.push_back(id);
  return ids;
}

}  // namespace qanat::kv
