// A few threads for work that must run neither on the engine thread nor in a gRPC reaction: tokenizing,
// detokenizing, matching stops, encoding.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "common/base/bounded_queue.h"

namespace qanat {

// What: runs tasks in order of arrival on `num_threads` threads. Owns its threads; the destructor runs what
// is queued and joins them. Threads: any. Errors: a full queue refuses, in tasks or in bytes of what they
// hold.
class TaskPool {
 public:
  TaskPool(int num_threads, size_t capacity, int64_t max_bytes = std::numeric_limits<int64_t>::max());
  ~TaskPool();
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  // False when the queue is full: the caller answers RESOURCE_EXHAUSTED or runs it another way.
  // The task counts for `bytes` until it has run.
  bool TryRun(std::function<void()> task, int64_t bytes = 0);

 private:
  struct Task {
    std::function<void()> run;
    int64_t bytes;
  };

  const int64_t max_bytes_;
  std::atomic<int64_t> bytes_ = 0;
  BoundedQueue<Task> tasks_;
  std::vector<std::thread> threads_;
};

}  // namespace qanat
