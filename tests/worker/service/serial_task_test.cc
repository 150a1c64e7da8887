#include "worker/service/serial_task.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "gtest/gtest.h"

namespace qanat::service {
namespace {

// Counts what producers made and fails when two runs overlap.
struct Counted {
  explicit Counted(TaskPool& pool) : task(pool, [this] { Run(); }) {}
  void Run() {
    EXPECT_FALSE(running.exchange(true)) << "two runs at once";
    seen = made.load();
    running = false;
  }
  std::atomic<int> made = 0;
  std::atomic<int> seen = 0;
  std::atomic<bool> running = false;
  SerialTask task;
};

TEST(SerialTaskTest, NeverOverlapsAndNeverMissesTheLastSchedule) {
  for (const size_t capacity : {size_t{1}, size_t{1000}}) {  // the small one is often full: runs inline
    std::shared_ptr<Counted> counted;
    {
      TaskPool pool(2, capacity);
      counted = std::make_shared<Counted>(pool);
      std::vector<std::thread> producers;
      for (int p = 0; p < 4; ++p) {
        producers.emplace_back([&] {
          for (int i = 0; i < 5000; ++i) {
            counted->made.fetch_add(1);
            counted->task.Schedule(counted);
          }
        });
      }
      for (std::thread& producer : producers) producer.join();
    }
    EXPECT_EQ(counted->seen, 20000);
  }
}

TEST(SerialTaskTest, KeepsItsOwnerAliveUntilTheRunIsOver) {
  TaskPool pool(1, 10);
  Mutex mu;
  CondVar changed;
  bool released = false;
  struct Owner {
    explicit Owner(TaskPool& pool, std::function<void()> body) : task(pool, std::move(body)) {}
    SerialTask task;
  };
  pool.TryRun([&] {
    MutexLock lock(mu);
    while (!released) changed.Wait(mu);
  });
  std::weak_ptr<Owner> weak;
  std::atomic<bool> ran = false;
  {
    auto owner = std::make_shared<Owner>(pool, [&] { ran = true; });
    weak = owner;
    owner->task.Schedule(owner);
  }
  EXPECT_FALSE(weak.expired());
  {
    MutexLock lock(mu);
    released = true;
  }
  changed.NotifyAll();
  std::atomic<bool> after = false;
  while (!pool.TryRun([&] { after = true; })) {
  }
  while (!after) std::this_thread::yield();
  EXPECT_TRUE(ran);
  EXPECT_TRUE(weak.expired());
}

}  // namespace
}  // namespace qanat::service
