#include "tests/kernels/machine_peaks.h"

#include <immintrin.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/kernel_set.h"

namespace qanat::kernels {
namespace {

constexpr int kTrials = 7;

// Of this thread's own time: what others take of the core is not the core's speed.
double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

template <typename Work>
double BestSeconds(const Work& work) {
  double best = 1e30;
  for (int trial = 0; trial < kTrials; ++trial) {
    const double start = ThreadSeconds();
    work();
    best = std::min(best, ThreadSeconds() - start);
  }
  return best;
}

__attribute__((target("avx512f,avx512vnni"))) int32_t DotLoop(int64_t count) {
  __m512i acc[12];
  for (__m512i& lane : acc) lane = _mm512_set1_epi32(static_cast<int>(count));
  const __m512i a = _mm512_set1_epi8(3);
  for (int64_t i = 0; i < count; ++i) {
#if defined(__clang__)
#pragma clang loop unroll(full)
#else
#pragma GCC unroll 12
#endif
    for (int lane = 0; lane < 12; ++lane) {
      acc[lane] = _mm512_dpbusd_epi32(acc[lane], a, a);
      asm volatile("" : "+v"(acc[lane]));
    }
  }
  __m512i sum = acc[0];
  for (int lane = 1; lane < 12; ++lane) sum = _mm512_add_epi32(sum, acc[lane]);
  return _mm512_cvtsi512_si32(sum);
}

__attribute__((target("avx512f"))) int64_t ReadLoop(const std::vector<int64_t>& memory) {
  __m512i sum[4];
  for (__m512i& lane : sum) lane = _mm512_setzero_si512();
  for (size_t i = 0; i + 32 <= memory.size(); i += 32) {
    for (int lane = 0; lane < 4; ++lane) {
      sum[lane] = _mm512_add_epi64(sum[lane], _mm512_loadu_si512(memory.data() + i + lane * 8));
    }
  }
  alignas(64) int64_t total[8];
  _mm512_store_si512(total,
                     _mm512_add_epi64(_mm512_add_epi64(sum[0], sum[1]), _mm512_add_epi64(sum[2], sum[3])));
  return total[0];
}

volatile int64_t sink = 0;

}  // namespace

double DotPeak() {
  static const double peak = [] {
    if (!CpuHasAvx512()) return 0.0;
    constexpr int64_t kCount = 2'000'000;
    return kCount * 12 * 128 / BestSeconds([] { sink = DotLoop(kCount); });
  }();
  return peak;
}

double ReadPeak() {
  static const double peak = [] {
    if (!CpuHasAvx512()) return 0.0;
    const std::vector<int64_t> memory((int64_t{96} << 20) / 8, 1);
    return memory.size() * 8.0 / BestSeconds([&] { sink = ReadLoop(memory); });
  }();
  return peak;
}

}  // namespace qanat::kernels
