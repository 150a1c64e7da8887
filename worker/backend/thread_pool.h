// The compute threads of a CPU backend.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

namespace qanat::backend {

struct ThreadPoolOptions {
  int threads = 1;        // the caller's included
  std::vector<int> cpus;  // thread i is pinned to cpus[i % size]; empty: not pinned
};

// What: runs loops over tiles on a fixed set of threads; the caller is thread 0 and computes too. Tiles are
// claimed from a counter, so which thread runs one is open. A helper that is not there (asleep, or its core
// busy elsewhere) is not waited for: the loop ends when all tiles are done, whoever did them.
// Owns its helper threads, for as long as it lives. A thread that computes calls Enter() first; whoever only
// has bytes moved need not, and is left as it is. Threads: one caller at a time. Waiting spins for a few
// microseconds and then sleeps. Errors: none; `run` must not throw.
//
// Invariants, of state_ = (epoch << 16 | open << 15 | number of helpers inside):
//  1 job_ and next_ change only while the gate is closed and no helper is inside.
//  2 a helper enters only through an open gate, by one compare-exchange, and reads job_ after it.
//  3 the epoch changes with every opening, so that a helper enters each loop at most once.
class ThreadPool {
 public:
  explicit ThreadPool(ThreadPoolOptions options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(helpers_.size()) + 1; }

  // Calls run(tile, thread) once for every tile in [0, num_tiles), thread in [0, num_threads()), and returns
  // when all calls have. What they wrote is visible to the caller. A single tile runs on the caller alone.
  template <typename Run>
  void ParallelFor(int num_tiles, const Run& run) {
    RunJob(
        {[](const void* context, int tile, int thread) { (*static_cast<const Run*>(context))(tile, thread); },
         &run, num_tiles});
  }

  // Makes the calling thread compute thread 0: pinned, and in the kernels' floating-point mode. Costs a
  // comparison when it is already. The destructor unpins the last one if it runs on it. Threads that a pinned
  // thread starts inherit its one CPU: start them before.
  void Enter();

 private:
  struct Job {
    void (*run)(const void* context, int tile, int thread) = nullptr;
    const void* context = nullptr;
    int num_tiles = 0;
  };

  void RunJob(const Job& job);
  void ClaimTiles(int thread);
  void HelperLoop(int thread);
  // Returns once state_ is no longer `seen`: spins for as long as `spin`, then sleeps.
  void WaitWhile(uint32_t seen, std::chrono::microseconds spin);
  void Pin(int thread) const;

  const ThreadPoolOptions options_;
  std::optional<std::thread::id> caller_;
  std::vector<int> caller_cpus_;  // the caller's mask before it was pinned
  Job job_;
  // On lines of their own: the first is what idle helpers read, the second what busy ones write.
  alignas(64) std::atomic<uint32_t> state_ = 0;
  alignas(64) std::atomic<int> next_ = 0;
  alignas(64) std::atomic<bool> stopping_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace qanat::backend
