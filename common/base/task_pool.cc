#include "common/base/task_pool.h"

#include <utility>

namespace qanat {

TaskPool::TaskPool(int num_threads, size_t capacity, int64_t max_bytes)
    : max_bytes_(max_bytes), tasks_(capacity) {
  for (int i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this] {
      while (auto task = tasks_.Pop()) {
        task->run();
        task->run = nullptr;  // with what it holds
        bytes_.fetch_sub(task->bytes);
      }
    });
  }
}

TaskPool::~TaskPool() {
  tasks_.Close();
  for (std::thread& thread : threads_) thread.join();
}

bool TaskPool::TryRun(std::function<void()> task, int64_t bytes) {
  // Added first, so that tasks that come together cannot both find the last place.
  if (bytes_.fetch_add(bytes) <= max_bytes_ - bytes && tasks_.TryPush({std::move(task), bytes})) return true;
  bytes_.fetch_sub(bytes);
  return false;
}

}  // namespace qanat
