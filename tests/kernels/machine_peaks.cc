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

// Twelve chains cover the latency of two units.
__attribute__((target("avx512f,avx512vnni"))) int32_t DotLoop(int64_t count) {
  const __m512i a = _mm512_set1_epi8(3);
  // Different starts, or the compiler would see one chain.
  __m512i x0 = _mm512_set1_epi32(0);
  __m512i x1 = _mm512_set1_epi32(1);
  __m512i x2 = _mm512_set1_epi32(2);
  __m512i x3 = _mm512_set1_epi32(3);
  __m512i x4 = _mm512_set1_epi32(4);
  __m512i x5 = _mm512_set1_epi32(5);
  __m512i x6 = _mm512_set1_epi32(6);
  __m512i x7 = _mm512_set1_epi32(7);
  __m512i x8 = _mm512_set1_epi32(8);
  __m512i x9 = _mm512_set1_epi32(9);
  __m512i x10 = _mm512_set1_epi32(10);
  __m512i x11 = _mm512_set1_epi32(11);
  for (int64_t i = 0; i < count; ++i) {
    x0 = _mm512_dpbusd_epi32(x0, a, a);
    x1 = _mm512_dpbusd_epi32(x1, a, a);
    x2 = _mm512_dpbusd_epi32(x2, a, a);
    x3 = _mm512_dpbusd_epi32(x3, a, a);
    x4 = _mm512_dpbusd_epi32(x4, a, a);
    x5 = _mm512_dpbusd_epi32(x5, a, a);
    x6 = _mm512_dpbusd_epi32(x6, a, a);
    x7 = _mm512_dpbusd_epi32(x7, a, a);
    x8 = _mm512_dpbusd_epi32(x8, a, a);
    x9 = _mm512_dpbusd_epi32(x9, a, a);
    x10 = _mm512_dpbusd_epi32(x10, a, a);
    x11 = _mm512_dpbusd_epi32(x11, a, a);
  }
  const __m512i low =
      _mm512_add_epi32(_mm512_add_epi32(_mm512_add_epi32(x0, x1), _mm512_add_epi32(x2, x3)), x4);
  const __m512i high =
      _mm512_add_epi32(_mm512_add_epi32(_mm512_add_epi32(x5, x6), _mm512_add_epi32(x7, x8)), x9);
  const __m512i rest = _mm512_add_epi32(x10, x11);
  return _mm512_cvtsi512_si32(_mm512_add_epi32(_mm512_add_epi32(low, high), rest));
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
