#include "router/index/holder_set.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace qanat::router {
namespace {

constexpr uint64_t kOnes = 0x0001'0001'0001'0001;

// Sets that wait for readers before anyone looks whether they may go.
constexpr size_t kMostWaiting = 64;

size_t SetBytes(const HolderSet& set) { return sizeof(HolderSet) + set.bits.capacity() * sizeof(uint64_t); }

bool HasBit(const std::vector<uint64_t>& bits, Lane lane) {
  return lane / 64 < bits.size() && (bits[lane / 64] >> lane % 64 & 1) != 0;
}

void SetBit(std::vector<uint64_t>& bits, Lane lane) {
  if (lane / 64 >= bits.size()) bits.resize(lane / 64 + 1);
  bits[lane / 64] |= uint64_t{1} << lane % 64;
}

}  // namespace

namespace holders {

bool Contains(uint64_t word, Lane lane) {
  if (IsSet(word)) return HasBit(SetOf(word)->bits, lane);
  // Whether a lane of the difference is 0: none of them has its top bit set, so that a borrow shows it.
  const uint64_t difference = word ^ (kOnes * lane);
  return ((difference - kOnes) & ~difference & (kOnes << 15)) != 0;
}

std::vector<Lane> Lanes(uint64_t word) {
  std::vector<Lane> lanes;
  Any(word, [&](Lane lane) {
    lanes.push_back(lane);
    return false;
  });
  return lanes;
}

}  // namespace holders

uint64_t HolderSets::Make(absl::Span<const Lane> lanes) {
  if (lanes.size() <= holders::kInlineLanes) {
    uint64_t word = holders::kEmpty;
    for (size_t i = lanes.size(); i-- > 0;) word = word << 16 | lanes[i];
    return word;
  }
  std::vector<uint64_t> bits;
  for (Lane lane : lanes) SetBit(bits, lane);
  return Name(std::move(bits));
}

uint64_t HolderSets::Name(std::vector<uint64_t> bits) {
  MutexLock lock(mu_);
  auto found = sets_.find(bits);
  if (found == sets_.end()) {
    auto set = std::make_unique<HolderSet>();
    set->bits = std::move(bits);
    set->bits.shrink_to_fit();
    bits_bytes_ += SetBytes(*set);
    found = sets_.insert(std::move(set)).first;
  }
  HolderSet& set = **found;
  ++set.references;
  return uint64_t{1} << 63 | reinterpret_cast<uintptr_t>(&set) >> 1;
}

uint64_t HolderSets::With(uint64_t word, Lane lane) {
  if (word == holders::kEmpty) return lane;
  if (holders::Contains(word, lane)) return word;
  if (holders::IsSet(word)) {
    std::vector<uint64_t> bits = holders::SetOf(word)->bits;
    SetBit(bits, lane);
    return Name(std::move(bits));
  }
  std::vector<Lane> lanes = holders::Lanes(word);
  lanes.insert(std::lower_bound(lanes.begin(), lanes.end(), lane), lane);
  return Make(lanes);
}

uint64_t HolderSets::Without(uint64_t word, Lane lane) {
  if (word == lane) return holders::kEmpty;
  if (!holders::Contains(word, lane)) return word;
  if (holders::IsSet(word)) {
    std::vector<uint64_t> bits = holders::SetOf(word)->bits;
    bits[lane / 64] &= ~(uint64_t{1} << lane % 64);
    while (!bits.empty() && bits.back() == 0) bits.pop_back();
    size_t left = 0;
    for (uint64_t part : bits) left += static_cast<size_t>(std::popcount(part));
    if (left > holders::kInlineLanes) return Name(std::move(bits));
  }
  std::vector<Lane> lanes = holders::Lanes(word);
  lanes.erase(std::lower_bound(lanes.begin(), lanes.end(), lane));
  return Make(lanes);
}

void HolderSets::Release(uint64_t word) {
  if (!holders::IsSet(word)) return;
  MutexLock lock(mu_);
  const auto found = sets_.find(holders::SetOf(word)->bits);
  QANAT_CHECK(found != sets_.end()) << "a word names a set that is not there";
  if (--(*found)->references > 0) return;
  bits_bytes_ -= SetBytes(**found);
  limbo_.Put(std::move(sets_.extract(found).value()), epochs_);
  if (limbo_.size() >= kMostWaiting) limbo_.Collect(epochs_);
}

size_t HolderSets::Bytes() const {
  MutexLock lock(mu_);
  return bits_bytes_ + sets_.capacity() * (sizeof(void*) + 1) +
         limbo_.size() * (sizeof(HolderSet) + 2 * sizeof(void*));
}

}  // namespace qanat::router
