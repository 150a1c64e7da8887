// The sequences that wait for a seat, in order.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/hash/block_hash.h"
#include "worker/engine/sequence.h"

namespace qanat::engine {

// A place in the queue, with what the scheduler noted on it.
struct Waiting {
  Sequence* sequence;
  bool started;                            // ran before it came to wait here, or follows choice 0
  int32_t counted_tokens;                  // in started_tokens(); those of a prompt count once
  int32_t passed_by = 0;                   // smaller ones admitted while this one did not fit
  int32_t cached_tokens = 0;               // of its known tokens, in the prefix cache at the last look
  std::optional<hash::BlockHash> awaited;  // a block that a running sequence was computing at the last look
};

// What: waiting sequences by Order. Owns nothing. Threads: the engine thread.
class WaitingQueue {
 public:
  using Map = std::map<Order, Waiting>;

  // Its place.
  Waiting& Add(Sequence& sequence) {
    const bool ran = sequence.ever_admitted();
    const Waiting waiting = {&sequence,   ran || sequence.choice() > 0, ran ? sequence.num_tokens() : 0, 0, 0,
                             std::nullopt};
    const auto [place, added] = map_.emplace(sequence.order(), waiting);
    QANAT_CHECK(added);
    Count(place->second, 1);
    return place->second;
  }
  void Remove(Sequence& sequence) { Remove(map_.find(sequence.order())); }
  // The place after it.
  Map::iterator Remove(Map::iterator place) {
    QANAT_CHECK(place != map_.end());
    Count(place->second, -1);
    cached_tokens_ -= place->second.cached_tokens;
    return map_.erase(place);
  }

  // What a look into the prefix cache found for it. A choice whose prompt is counted elsewhere has none to
  // spare.
  void SetCachedTokens(Waiting& place, int32_t tokens) {
    if (place.started && place.counted_tokens == 0) return;
    cached_tokens_ += tokens - std::exchange(place.cached_tokens, tokens);
  }

  Map::iterator begin() { return map_.begin(); }
  Map::iterator end() { return map_.end(); }
  Map::const_iterator begin() const { return map_.begin(); }
  Map::const_iterator end() const { return map_.end(); }
  int32_t size() const { return static_cast<int32_t>(map_.size()); }
  // Of these, the ones that the door does not count: they ran before, or follow choice 0 of their request.
  int32_t num_started() const { return num_started_; }
  // The requests that the door counts: none of their choices has started.
  int32_t num_queued() const { return size() - num_started_; }
  int64_t started_tokens() const { return started_tokens_; }  // their known ones
  // Of all: the sum of Waiting::cached_tokens.
  int64_t cached_tokens() const { return cached_tokens_; }

 private:
  void Count(const Waiting& place, int32_t sign) {
    if (!place.started) return;
    num_started_ += sign;
    started_tokens_ += sign * static_cast<int64_t>(place.counted_tokens);
  }

  Map map_;
  int32_t num_started_ = 0;
  int64_t started_tokens_ = 0;
  int64_t cached_tokens_ = 0;
};

}  // namespace qanat::engine
