// The worker's side of a Watch, as a test plays it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "common/api/watch.h"
#include "router/link/worker_link.h"

namespace qanat::fakes {

// What: a set of blocks that changes, and the frames that tell of it. Owns its set. Threads: one at a time.
class WatchedWorker {
 public:
  explicit WatchedWorker(uint64_t epoch, size_t ring = 8) : epoch_(epoch), ring_(ring) {}

  // One more state.
  api::WatchFrame Change(const std::vector<hash::BlockHash>& stored,
                         const std::vector<hash::BlockHash>& removed = {}) {
    for (const hash::BlockHash block : removed) {
      if (blocks_.erase(block) > 0) residency_.Remove(block);
    }
    for (const hash::BlockHash block : stored) {
      if (blocks_.insert(block).second) residency_.Add(block);
    }
    deltas_.push_back({epoch_, ++seq_, api::Delta{stored, removed, residency_}});
    if (deltas_.size() > ring_) deltas_.pop_front();
    return deltas_.back();
  }
  // A change of its own choice, within `universe` blocks.
  api::WatchFrame ChangeAtRandom(std::mt19937& random, int universe) {
    std::vector<hash::BlockHash> stored;
    std::vector<hash::BlockHash> removed;
    for (int i = static_cast<int>(random() % 4); i >= 0; --i) {
      const hash::BlockHash block = 1 + random() % universe;
      const bool known = std::count(stored.begin(), stored.end(), block) > 0 ||
                         std::count(removed.begin(), removed.end(), block) > 0;
      if (!known) (blocks_.count(block) > 0 ? removed : stored).push_back(block);
    }
    return Change(stored, removed);
  }
  api::WatchFrame Load(api::Load load = {}) const {
    load.residency = residency_;
    return {epoch_, seq_, load};
  }
  // What a new watch from `known` is told first.
  std::vector<api::WatchFrame> Answer(const router::WatchPosition& known) const {
    const bool in_ring = known.epoch == epoch_ && known.seq <= seq_ && known.seq + deltas_.size() >= seq_;
    std::vector<api::WatchFrame> frames;
    if (known.seq != 0 && in_ring) {
      for (const api::WatchFrame& delta : deltas_) {
        if (delta.seq > known.seq) frames.push_back(delta);
      }
      return frames;
    }
    frames.push_back({epoch_, seq_, api::SnapshotBegin{residency_.resident_count}});
    api::SnapshotChunk chunk;
    for (const hash::BlockHash block : blocks_) {
      chunk.stored.push_back(block);
      if (chunk.stored.size() < 5) continue;
      frames.push_back({epoch_, seq_, std::exchange(chunk, {})});
    }
    if (!chunk.stored.empty()) frames.push_back({epoch_, seq_, chunk});
    frames.push_back({epoch_, seq_, api::SnapshotEnd{residency_}});
    return frames;
  }

  const std::set<hash::BlockHash>& blocks() const { return blocks_; }
  const hash::Residency& residency() const { return residency_; }

 private:
  const uint64_t epoch_;
  const size_t ring_;
  std::set<hash::BlockHash> blocks_;
  hash::Residency residency_;
  uint64_t seq_ = 1;  // the empty set
  std::deque<api::WatchFrame> deltas_;
};

}  // namespace qanat::fakes
