#include "worker/kv/first_fit_order.h"

#include <algorithm>
#include <iterator>

#include "common/base/check.h"

namespace qanat::kv {

void FirstFitOrder::Add(BlockId id, bool cached) {
  QANAT_CHECK(!cached) << "block " << id << " holds what a run would overwrite";
  auto after = runs_.upper_bound(id);
  int32_t length = 1;
  if (after != runs_.end() && after->first == id + 1) {
    length += after->second;
    after = runs_.erase(after);
  }
  ++size_;
  if (after != runs_.begin()) {
    const auto before = std::prev(after);
    QANAT_DCHECK(before->first + before->second <= id) << "block " << id << " is in the order already";
    if (before->first + before->second == id) {
      before->second += length;
      return;
    }
  }
  runs_.emplace_hint(after, id, length);
}

void FirstFitOrder::Remove(BlockId id) {
  auto run = runs_.upper_bound(id);
  QANAT_CHECK(run != runs_.begin());
  --run;
  const auto [first, length] = *run;
  QANAT_CHECK(id < first + length) << "block " << id << " is not in the order";
  --size_;
  run = id == first ? runs_.erase(run) : std::next(run);
  if (id > first) std::prev(run)->second = id - first;
  if (const int32_t left = first + length - id - 1; left > 0) runs_.emplace_hint(run, id + 1, left);
}

BlockId FirstFitOrder::Next() const {
  QANAT_DCHECK(size_ > 0);
  return runs_.begin()->first;
}

std::vector<BlockId> FirstFitOrder::ToVector() const {
  std::vector<BlockId> ids;
  ids.reserve(size_);
  for (const auto& [first, length] : runs_) {
    for (int32_t i = 0; i < length; ++i) ids.push_back(first + i);
  }
  return ids;
}

BlockId FirstFitOrder::FindRun(int32_t length) const {
  const auto run =
      std::find_if(runs_.begin(), runs_.end(), [length](const auto& each) { return each.second >= length; });
  return run == runs_.end() ? kNoBlock : run->first;
}

}  // namespace qanat::kv
