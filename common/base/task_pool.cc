#include "common/base/task_pool.h"

namespace qanat {

TaskPool::TaskPool(int num_threads, size_t capacity) : tasks_(capacity) {
  for (int i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this] {
      while (auto task = tasks_.Pop()) (*task)();
    });
  }
}

TaskPool::~TaskPool() {
  tasks_.Close();
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace qanat
