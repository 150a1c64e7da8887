// Steps of a model of SmolLM2-135M's shapes, all layers, without a scheduler or a sampler.
// QANAT_BENCHMARK_KERNELS chooses the path, QANAT_BENCHMARK_THREADS the number of threads (default: all).
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <numeric>
#include <string>

#include "tests/worker/backend/small_model.h"

namespace qanat::backend {
namespace {

SmallShape SmolLm2() {
  SmallShape shape;
  shape.layers = 30;
  shape.hidden = 576;
  shape.num_heads = 9;
  shape.num_kv_heads = 3;
  shape.head_dim = 64;
  shape.ffn = 1536;
  shape.vocabulary = 49152;
  shape.num_blocks = 32 * 40;
  shape.max_rows = 512;
  shape.max_positions = 4096;
  shape.value_type = DType::kQ4_1;
  return shape;
}

// Loaded once: the benchmarks overwrite the same cache.
SmallModel& Model() {
  static const std::unique_ptr<Backend> backend = [] {
    const char* kernels = std::getenv("QANAT_BENCHMARK_KERNELS");
    const char* threads = std::getenv("QANAT_BENCHMARK_THREADS");
    auto created = CreateCpuBackend({threads ? std::atoi(threads) : 0, kernels ? kernels : "auto", true});
    QANAT_CHECK(created.ok()) << created.status();
    return std::move(*created);
  }();
  static SmallModel model(*backend, SmolLm2(), 1);
  return model;
}

// `count` sequences of `rows` tokens each, at `position`.
std::vector<SmallSequence> Sequences(int count, int rows, int position) {
  const int blocks = (position + rows + 15) / 16;
  std::vector<SmallSequence> sequences;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> table(blocks);
    std::iota(table.begin(), table.end(), i * blocks);
    sequences.push_back({std::vector<TokenId>(rows, 7 + i), position, std::move(table)});
  }
  return sequences;
}

void BM_Prefill(benchmark::State& state) {
  const auto sequences = Sequences(1, static_cast<int>(state.range(0)), 0);
  for (auto _ : state) Model().Run(sequences, false);
  state.counters["tok/s"] = benchmark::Counter(static_cast<double>(state.range(0) * state.iterations()),
                                               benchmark::Counter::kIsRate);
}
BENCHMARK(BM_Prefill)
    ->Arg(64)
    ->Arg(512)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void BM_Decode(benchmark::State& state) {
  const auto sequences = Sequences(static_cast<int>(state.range(0)), 1, static_cast<int>(state.range(1)));
  for (auto _ : state) Model().Run(sequences, false);
  state.counters["tok/s"] = benchmark::Counter(static_cast<double>(state.range(0) * state.iterations()),
                                               benchmark::Counter::kIsRate);
}
BENCHMARK(BM_Decode)
    ->ArgNames({"batch", "context"})
    ->Args({1, 128})
    ->Args({1, 512})
    ->Args({4, 160})
    ->Args({16, 160})
    ->Args({32, 160})
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace qanat::backend
