// A queue between threads that holds at most `capacity` items; a full one refuses, it never grows.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "common/base/mutex.h"

namespace qanat {

// What: FIFO between any number of producers and consumers. Owns its items.
// Threads: any. Errors: TryPush gives the item back (untouched) by returning false.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // False, and `item` untouched, when the queue is full or closed.
  bool TryPush(T&& item) EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.NotifyOne();
    return true;
  }

  // Waits for an item. Empty when the queue is closed and drained.
  std::optional<T> Pop() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (items_.empty() && !closed_) not_empty_.Wait(mu_);
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  // No more items are taken in; what is queued can still be popped.
  void Close() EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      closed_ = true;
    }
    not_empty_.NotifyAll();
  }

  size_t size() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return items_.size();
  }

 private:
  const size_t capacity_;
  mutable Mutex mu_;
  CondVar not_empty_;
  std::deque<T> items_ GUARDED_BY(mu_);
  bool closed_ GUARDED_BY(mu_) = false;
};

}  // namespace qanat
