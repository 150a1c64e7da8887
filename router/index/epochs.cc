#include "router/index/epochs.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <thread>

namespace qanat::router {

Epochs::Reader::Reader(Epochs& epochs) {
  // Threads start at different places, so that they seldom meet on a cache line.
  size_t i = std::hash<std::thread::id>()(std::this_thread::get_id()) * 0x9e3779b97f4a7c15 >> 32;
  for (size_t tries = 1;; ++i, ++tries) {
    std::atomic<uint64_t>& place = epochs.places_[i % kMostReaders].epoch;
    uint64_t nobody = kNobody;
    if (place.load(std::memory_order_relaxed) == kNobody &&
        place.compare_exchange_strong(nobody, epochs.now_.load())) {
      place_ = &place;
      return;
    }
    if (tries % kMostReaders == 0) std::this_thread::yield();
  }
}

uint64_t Epochs::Oldest() const {
  uint64_t oldest = std::numeric_limits<uint64_t>::max();
  for (const Place& place : places_) {
    const uint64_t epoch = place.epoch.load();
    if (epoch != kNobody) oldest = std::min(oldest, epoch);
  }
  return oldest;
}

}  // namespace qanat::router
