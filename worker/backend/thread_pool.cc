#include "worker/backend/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <chrono>

#include "common/base/check.h"
#include "common/base/cpu_topology.h"
#include "kernels/float_mode.h"

namespace qanat::backend {
namespace {

constexpr uint32_t kOpen = 1u << 15;
constexpr uint32_t kInside = kOpen - 1;
constexpr uint32_t kEpoch = 1u << 16;
// Between loops, a helper's next work is a few microseconds away or there is none. At the end of a loop, who
// is done waits for tiles in progress, of 10 to 100 us: sleeping would cost it its turn on a core that others
// want, too, and a helper would be late for the next loop.
constexpr std::chrono::microseconds kSpinBetweenLoops{8};
constexpr std::chrono::microseconds kSpinInLoop{100};
constexpr int kPausesAClockRead = 16;

void SetAffinity(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  // A refusal costs speed only: the set may have shrunk since it was read.
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

}  // namespace

ThreadPool::ThreadPool(ThreadPoolOptions options) : options_(std::move(options)) {
  QANAT_CHECK(options_.threads >= 1 && options_.threads < static_cast<int>(kInside)) << options_.threads;
  helpers_.reserve(options_.threads - 1);
  for (int thread = 1; thread < options_.threads; ++thread) {
    helpers_.emplace_back([this, thread] { HelperLoop(thread); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  state_.fetch_add(kEpoch, std::memory_order_release);
  state_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
  if (caller_ == std::this_thread::get_id() && !caller_cpus_.empty()) SetAffinity(caller_cpus_);
}

void ThreadPool::Enter() {
  if (caller_ == std::this_thread::get_id()) return;
  caller_ = std::this_thread::get_id();
  kernels::SetFloatMode();
  if (options_.cpus.empty()) return;
  caller_cpus_ = AllowedCpus();
  Pin(0);
}

void ThreadPool::Pin(int thread) const {
  if (!options_.cpus.empty()) SetAffinity({options_.cpus[thread % options_.cpus.size()]});
}

void ThreadPool::RunJob(const Job& job) {
  if (helpers_.empty() || job.num_tiles <= 1) {
    for (int tile = 0; tile < job.num_tiles; ++tile) job.run(job.context, tile, 0);
    return;
  }
  job_ = job;
  next_.store(0, std::memory_order_relaxed);
  // Closed and empty: nobody else writes state_ now.
  const uint32_t open = (state_.load(std::memory_order_relaxed) + kEpoch) | kOpen;
  state_.store(open, std::memory_order_release);
  state_.notify_all();
  ClaimTiles(0);
  uint32_t state = state_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  while ((state & kInside) != 0) {
    WaitWhile(state, kSpinInLoop);
    state = state_.load(std::memory_order_acquire);
  }
}

void ThreadPool::ClaimTiles(int thread) {
  const Job job = job_;
  for (int tile = next_.fetch_add(1, std::memory_order_relaxed); tile < job.num_tiles;
       tile = next_.fetch_add(1, std::memory_order_relaxed)) {
    job.run(job.context, tile, thread);
  }
}

void ThreadPool::HelperLoop(int thread) {
  kernels::SetFloatMode();
  Pin(thread);
  uint32_t last_epoch = 0;
  while (true) {
    uint32_t state = state_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    if ((state & kOpen) == 0 || state / kEpoch == last_epoch) {
      WaitWhile(state, (state & kOpen) != 0 ? kSpinInLoop : kSpinBetweenLoops);
      continue;
    }
    if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) continue;
    last_epoch = state / kEpoch;
    ClaimTiles(thread);
    const uint32_t left = state_.fetch_sub(1, std::memory_order_acq_rel) - 1;
    if ((left & (kOpen | kInside)) == 0) state_.notify_all();
  }
}

void ThreadPool::WaitWhile(uint32_t seen, std::chrono::microseconds spin) {
  const auto until = std::chrono::steady_clock::now() + spin;
  do {
    for (int i = 0; i < kPausesAClockRead; ++i) {
      if (state_.load(std::memory_order_acquire) != seen) return;
      __builtin_ia32_pause();
    }
  } while (std::chrono::steady_clock::now() < until);
  state_.wait(seen, std::memory_order_acquire);
}

}  // namespace qanat::backend
