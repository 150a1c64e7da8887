#include "worker/backend/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>
#include <xmmintrin.h>

#include <atomic>
#include <random>
#include <thread>

#include "common/base/cpu_topology.h"

namespace qanat::backend {
namespace {

TEST(ThreadPoolTest, RunsEveryTileOnceAndShowsItsWritesToTheCaller) {
  std::mt19937 rng(1);
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool({threads, {}});
    ASSERT_EQ(pool.num_threads(), threads);
    std::vector<int> runs(200);
    std::vector<int> expected(200);
    for (int loop = 0; loop < 800; ++loop) {
      // Short loops are over before helpers wake; in every eighth all tiles wait for one another.
      const bool together = loop % 8 == 0;
      const int tiles = together ? threads : static_cast<int>(rng() % (rng() % 4 == 0 ? 200 : 5));
      std::atomic<int> started = 0;
      for (int tile = 0; tile < tiles; ++tile) ++expected[tile];
      // Not atomic on purpose: ThreadSanitizer would see two threads on a tile, or a caller too early.
      pool.ParallelFor(tiles, [&](int tile, int thread) {
        ASSERT_TRUE(thread >= 0 && thread < threads);
        ++started;
        while (together && started.load() < threads) std::this_thread::yield();
        ++runs[tile];
      });
      ASSERT_EQ(runs, expected) << threads << " threads, loop " << loop;
    }
  }
}

// A loop in which every thread takes part: one tile each, which wait for one another.
template <typename Run>
void RunOnAllThreads(ThreadPool& pool, const Run& run) {
  std::atomic<int> started = 0;
  pool.ParallelFor(pool.num_threads(), [&](int, int thread) {
    ++started;
    while (started.load() < pool.num_threads()) std::this_thread::yield();
    run(thread);
  });
}

TEST(ThreadPoolTest, EveryThreadHasItsOwnNumber) {
  ThreadPool pool({4, {}});
  std::vector<std::thread::id> owner(4);
  RunOnAllThreads(pool, [&](int thread) { owner[thread] = std::this_thread::get_id(); });
  EXPECT_EQ(owner[0], std::this_thread::get_id());
  for (int loop = 0; loop < 100; ++loop) {
    std::vector<std::thread::id> seen(4);
    RunOnAllThreads(pool, [&](int thread) { seen[thread] = std::this_thread::get_id(); });
    ASSERT_EQ(seen, owner);
  }
}

TEST(ThreadPoolTest, ServesOneCallerAfterAnother) {
  ThreadPool pool({3, {}});
  int sum = 0;
  for (int i = 0; i < 5; ++i) {
    std::thread caller([&] {
      std::vector<int> tiles(64);
      pool.ParallelFor(64, [&](int tile, int) { tiles[tile] = tile; });
      for (const int tile : tiles) sum += tile;
    });
    caller.join();
  }
  EXPECT_EQ(sum, 5 * 64 * 63 / 2);
}

TEST(ThreadPoolTest, ComputesInTheKernelsFloatingPointModeOnEveryThread) {
  ThreadPool pool({3, {}});
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // flush to zero, denormals are zero
  std::vector<unsigned> modes(3);
  pool.Enter();
  RunOnAllThreads(pool, [&](int thread) { modes[thread] = _mm_getcsr() & ~0x3Fu; });
  EXPECT_EQ(modes, std::vector<unsigned>(3, 0x1F80u));
  _mm_setcsr(before);
}

double Seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

TEST(ThreadPoolTest, IdleThreadsSleep) {
  ThreadPool pool({8, {}});
  RunOnAllThreads(pool, [](int) {});
  const double process = Seconds(CLOCK_PROCESS_CPUTIME_ID);
  const double own = Seconds(CLOCK_THREAD_CPUTIME_ID);
  while (Seconds(CLOCK_THREAD_CPUTIME_ID) - own < 0.1) {
  }
  const double others =
      (Seconds(CLOCK_PROCESS_CPUTIME_ID) - process) - (Seconds(CLOCK_THREAD_CPUTIME_ID) - own);
  EXPECT_LT(others, 0.02) << "7 helpers that spin for a few microseconds each, then sleep";
}

TEST(ThreadPoolTest, PinsTheThreadThatEntersAndLetsItGo) {
  const std::vector<int> before = AllowedCpus();
  {
    ThreadPool pool({1, {before.back()}});
    pool.ParallelFor(1, [](int, int) {});
    EXPECT_EQ(AllowedCpus(), before) << "threads that it starts later would be pinned, too";
    pool.Enter();
    EXPECT_EQ(AllowedCpus(), std::vector<int>{before.back()});
  }
  EXPECT_EQ(AllowedCpus(), before);
}

}  // namespace
}  // namespace qanat::backend
