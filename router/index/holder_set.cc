#include "router/index/holder_set.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "common/base/check.h"

namespace qanat::router {
namespace {

constexpr uint64_t kOnes = 0x0001'0001'0001'0001;

// Sets that wait for readers before anyone looks whether they may go.
constexpr size_t kMostWaiting = 64;

size_t SetBytes(const HolderSet& set) { return sizeof(HolderSet) + set.lanes.capacity() * sizeof(Lane); }

}  // namespace

namespace holders {

bool Contains(uint64_t word, Lane lane) {
  if (IsSet(word)) {
    const std::vector<Lane>& lanes = SetOf(word)->lanes;
    return std::binary_search(lanes.begin(), lanes.end(), lane);
  }
  // Whether a lane of the difference is 0: none of them has its top bit set, so that a borrow shows it.
  const uint64_t difference = word ^ (kOnes * lane);
  return ((difference - kOnes) & ~difference & (kOnes << 15)) != 0;
}

std::vector<Lane> Lanes(uint64_t word) {
  if (IsSet(word)) return SetOf(word)->lanes;
  std::vector<Lane> lanes;
  for (; word != 0; word >>= 16) lanes.push_back(static_cast<Lane>(word));
  return lanes;
}

}  // namespace holders

uint64_t HolderSets::Make(absl::Span<const Lane> lanes) {
  if (lanes.size() <= holders::kInlineLanes) {
    uint64_t word = holders::kEmpty;
    for (size_t i = lanes.size(); i-- > 0;) word = word << 16 | lanes[i];
    return word;
  }
  MutexLock lock(mu_);
  auto found = sets_.find(lanes);
  if (found == sets_.end()) {
    auto set = std::make_unique<HolderSet>();
    set->lanes.assign(lanes.begin(), lanes.end());
    lanes_bytes_ += SetBytes(*set);
    found = sets_.insert(std::move(set)).first;
  }
  HolderSet& set = **found;
  ++set.references;
  return uint64_t{1} << 63 | reinterpret_cast<uintptr_t>(&set) >> 1;
}

uint64_t HolderSets::With(uint64_t word, Lane lane) {
  if (word == holders::kEmpty) return lane;
  if (holders::Contains(word, lane)) return word;
  std::vector<Lane> lanes = holders::Lanes(word);
  lanes.insert(std::lower_bound(lanes.begin(), lanes.end(), lane), lane);
  return Make(lanes);
}

uint64_t HolderSets::Without(uint64_t word, Lane lane) {
  if (word == lane) return holders::kEmpty;
  if (!holders::Contains(word, lane)) return word;
  std::vector<Lane> lanes = holders::Lanes(word);
  lanes.erase(std::lower_bound(lanes.begin(), lanes.end(), lane));
  return Make(lanes);
}

void HolderSets::Release(uint64_t word) {
  if (!holders::IsSet(word)) return;
  MutexLock lock(mu_);
  const auto found = sets_.find(absl::Span<const Lane>(holders::SetOf(word)->lanes));
  QANAT_CHECK(found != sets_.end()) << "a word names a set that is not there";
  if (--(*found)->references > 0) return;
  lanes_bytes_ -= SetBytes(**found);
  limbo_.Put(std::move(sets_.extract(found).value()), epochs_);
  if (limbo_.size() >= kMostWaiting) limbo_.Collect(epochs_);
}

size_t HolderSets::Bytes() const {
  MutexLock lock(mu_);
  return lanes_bytes_ + sets_.capacity() * (sizeof(void*) + 1) +
         limbo_.size() * (sizeof(HolderSet) + 2 * sizeof(void*));
}

}  // namespace qanat::router
