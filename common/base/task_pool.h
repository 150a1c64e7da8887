// A few threads for work that must run neither on the engine thread nor in a gRPC reaction: tokenizing,
// detokenizing, matching stops, encoding.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "common/base/bounded_queue.h"

namespace qanat {

// What: runs tasks in order of arrival on `num_threads` threads. Owns its threads; the destructor runs what
// is queued and joins them. Threads: any. Errors: a full queue refuses.
class TaskPool {
 public:
  TaskPool(int num_threads, size_t capacity);
  ~TaskPool();
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  // False when the queue is full: the caller answers RESOURCE_EXHAUSTED or runs it another way.
  bool TryRun(std::function<void()> task) { return tasks_.TryPush(std::move(task)); }

 private:
  BoundedQueue<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
};

}  // namespace qanat
