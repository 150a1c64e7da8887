#include "router/index/index.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "common/base/check.h"

namespace qanat::router {

using hash::BlockHash;

Index::Index() {
  for (auto& shard : shards_) shard = std::make_unique<Shard>(epochs_, sets_, open_);
}

Index::~Index() = default;

HolderId Index::Open(int64_t capacity) {
  for (;;) {
    {
      MutexLock lock(mu_);
      if (free_.empty() && holders_.size() < kMostHolders) {
        free_.push_back(HolderId{static_cast<uint16_t>(holders_.size())});
        holders_.emplace_back();
      }
      if (!free_.empty()) {
        const HolderId id = free_.back();
        free_.pop_back();
        holders_[static_cast<size_t>(id)] = {HolderState::kOpen, capacity, {}};
        open_.Set(LaneOf(id), true);
        return id;
      }
      QANAT_CHECK(!closed_.empty()) << "more holders than there are names for";
    }
    while (!Sweep(std::numeric_limits<int64_t>::max())) {
    }
  }
}

Index::Holder& Index::OpenHolder(HolderId id) const {
  MutexLock lock(mu_);
  Holder& holder = holders_.at(static_cast<size_t>(id));
  QANAT_CHECK(holder.state == HolderState::kOpen) << "holder " << static_cast<int>(id) << " is not open";
  return holder;
}

size_t Index::Add(HolderId id, absl::Span<const BlockHash> blocks) {
  Holder& holder = OpenHolder(id);
  size_t changed = 0;
  for (BlockHash hash : blocks) {
    if (holder.residency.resident_count >= holder.capacity) break;
    const uint64_t mix = hash::Mix(hash);
    if (!ShardOf(mix).Add(hash, mix, LaneOf(id))) continue;
    holder.residency.Add(hash);
    ++changed;
  }
  stored_.fetch_add(static_cast<int64_t>(changed), std::memory_order_relaxed);
  return changed;
}

size_t Index::Remove(HolderId id, absl::Span<const BlockHash> blocks) {
  Holder& holder = OpenHolder(id);
  size_t changed = 0;
  for (BlockHash hash : blocks) {
    const uint64_t mix = hash::Mix(hash);
    if (!ShardOf(mix).Remove(hash, mix, LaneOf(id))) continue;
    holder.residency.Remove(hash);
    ++changed;
  }
  removed_.fetch_add(static_cast<int64_t>(changed), std::memory_order_relaxed);
  return changed;
}

hash::Residency Index::Residency(HolderId id) const { return OpenHolder(id).residency; }

void Index::Close(HolderId id) {
  Holder& holder = OpenHolder(id);
  MutexLock lock(mu_);
  holder.state = HolderState::kClosed;
  open_.Set(LaneOf(id), false);
  closed_.push_back(id);
}

bool Index::Sweep(int64_t slots) {
  MutexLock sweep_lock(sweep_mu_);
  if (sweeping_.empty()) {
    MutexLock lock(mu_);
    sweeping_.swap(closed_);
    if (sweeping_.empty()) return true;
  }
  while (sweep_shard_ < kShards) {
    if (!shards_[sweep_shard_]->Sweep(cursor_, slots)) return false;
    ++sweep_shard_;
    cursor_ = {};
  }
  sweep_shard_ = 0;
  MutexLock lock(mu_);
  for (HolderId id : sweeping_) holders_[static_cast<size_t>(id)].state = HolderState::kFree;
  free_.insert(free_.end(), sweeping_.begin(), sweeping_.end());
  sweeping_.clear();
  return closed_.empty();
}

uint64_t Index::Find(BlockHash hash) const {
  const uint64_t mix = hash::Mix(hash);
  return ShardOf(mix).Find(hash, mix);
}

// The depths of some holders in one prompt, found together: one look at a block tells it of all of them.
class Index::Search {
 public:
  struct Seeker {
    Lane lane;
    size_t place;  // in depths
  };
  using Seekers = absl::Span<Seeker>;

  Search(const Index& index, absl::Span<const BlockHash> prompt, absl::Span<int32_t> depths)
      : index_(index), prompt_(prompt), depths_(depths) {}

  // Looks at depths 1, 3, 7 ... and then between the last that a seeker has and the first that it has not.
  void Run(Seekers seekers) {
    const auto end = static_cast<int32_t>(prompt_.size());
    for (int32_t depth = 1; depth <= end; depth = 2 * depth + 1) Prefetch(depth);
    uint64_t known = holders::kEmpty;
    int32_t low = 0;
    for (int32_t step = 1; low < end && !seekers.empty(); step *= 2) {
      const int32_t next = std::min(low + step, end);
      const uint64_t word = At(next);
      const size_t have = Part(seekers, word, known);
      Between(seekers.subspan(have), low, next, known);
      seekers = seekers.first(have);
      low = next;
      known = word;
    }
    Settle(seekers, low);
  }

 private:
  // The holders of the last of the first `depth` blocks.
  uint64_t At(int32_t depth) const { return index_.Find(prompt_[static_cast<size_t>(depth) - 1]); }

  void Prefetch(int32_t depth) const {
    const uint64_t mix = hash::Mix(prompt_[static_cast<size_t>(depth) - 1]);
    index_.ShardOf(mix).Prefetch(mix);
  }

  // Moves those that `word` contains to the front and returns how many they are. `known` contains all.
  static size_t Part(Seekers seekers, uint64_t word, uint64_t known) {
    if (word == holders::kEmpty) return 0;
    if (word == known) return seekers.size();
    const auto has = [word](const Seeker& seeker) { return holders::Contains(word, seeker.lane); };
    return static_cast<size_t>(std::partition(seekers.begin(), seekers.end(), has) - seekers.begin());
  }

  // All seekers have `low` blocks and not `high`; `known` is the word at `low`.
  void Between(Seekers seekers, int32_t low, int32_t high, uint64_t known) {
    while (high - low > 1 && !seekers.empty()) {
      const int32_t middle = low + (high - low) / 2;
      // Both that may come next, while the memory is slow with this one.
      Prefetch(middle + (high - middle) / 2);
      if (middle - low > 1) Prefetch(low + (middle - low) / 2);
      const uint64_t word = At(middle);
      const size_t have = Part(seekers, word, known);
      Between(seekers.first(have), middle, high, word);
      seekers = seekers.subspan(have);
      high = middle;
    }
    Settle(seekers, low);
  }

  void Settle(Seekers seekers, int32_t depth) {
    for (const Seeker& seeker : seekers) depths_[seeker.place] = depth;
  }

  const Index& index_;
  const absl::Span<const BlockHash> prompt_;
  const absl::Span<int32_t> depths_;
};

void Index::Match(absl::Span<const BlockHash> prompt, absl::Span<const HolderId> holders,
                  absl::Span<int32_t> depths) const {
  QANAT_CHECK(depths.size() == holders.size()) << depths.size() << " depths";
  std::fill(depths.begin(), depths.end(), 0);
  if (prompt.empty()) return;
  absl::InlinedVector<Search::Seeker, 64> seekers;
  for (size_t i = 0; i < holders.size(); ++i) {
    const Lane lane = LaneOf(holders[i]);
    if (open_.IsOpen(lane)) seekers.push_back({lane, i});
  }
  const Epochs::Reader reader(epochs_);
  Search(*this, prompt, depths).Run(absl::MakeSpan(seekers));

  // Which prompts are looked at twice depends on the prompt only: equal arguments give equal answers.
  const uint64_t sample = hash::Mix(prompt.back());
  if (sample % kSample != 0) return;
  for (const Search::Seeker& seeker : seekers) {
    int32_t& depth = depths[seeker.place];
    if (depth < 2) continue;
    const size_t block = (sample / kSample + seeker.lane) % static_cast<size_t>(depth - 1);
    if (!holders::Contains(Find(prompt[block]), seeker.lane)) depth = Scan(prompt, seeker.lane, depth);
  }
}

int32_t Index::Scan(absl::Span<const BlockHash> prompt, Lane lane, int32_t claimed) const {
  int32_t depth = 0;
  while (depth < claimed && holders::Contains(Find(prompt[static_cast<size_t>(depth)]), lane)) ++depth;
  // Not when the blocks were removed while we looked, which takes children first.
  if (depth < claimed && holders::Contains(Find(prompt[static_cast<size_t>(claimed) - 1]), lane)) {
    not_closed_.fetch_add(1, std::memory_order_relaxed);
  }
  return depth;
}

IndexStats Index::Stats() const {
  IndexStats stats;
  for (const auto& shard : shards_) {
    stats.distinct_blocks += shard->live();
    stats.bytes += static_cast<int64_t>(shard->bytes());
  }
  stats.bytes += static_cast<int64_t>(sets_.Bytes());
  stats.stored = stored_.load(std::memory_order_relaxed);
  stats.removed = removed_.load(std::memory_order_relaxed);
  return stats;
}

void Index::CheckInvariants() const {
  for (const auto& shard : shards_) shard->CheckInvariants();
}

}  // namespace qanat::router
