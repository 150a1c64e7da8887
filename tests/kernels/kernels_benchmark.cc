// Speed of the kernels on one thread, beside what the core can do: GOPS as a share of a measured vpdpbusd
// peak, bytes as a share of a measured streaming read. Shapes are SmolLM2-135M's.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>

#include "kernels/kernel_set.h"
#include "tests/kernels/machine_peaks.h"
#include "tests/kernels/test_data.h"

namespace qanat::kernels {
namespace {

const KernelSet& FastPath() { return *FastPaths().back(); }

// By the index that is a benchmark's argument; null where this CPU cannot run it.
const KernelSet* PathAt(int64_t index) {
  if (index == 0) return CpuHasAvx512() ? &Avx512Kernels() : nullptr;
  if (index == 1) return CpuHasAvx2() ? &Avx2Kernels() : nullptr;
  return &ScalarKernels();
}

struct MatrixShape {
  const char* name;
  WeightFormat format;
  int outputs;
  int inputs;
};

constexpr MatrixShape kMatrices[] = {
    {"qkv", WeightFormat::kQ4_1, 960, 576},         {"o", WeightFormat::kQ4_1, 576, 576},
    {"gate_up", WeightFormat::kQ4_1, 3072, 576},    {"down", WeightFormat::kQ4_1, 576, 1536},
    {"head", WeightFormat::kQ8_0, 16384, 576},      {"gate_up_q4_0", WeightFormat::kQ4_0, 3072, 576},
    {"gate_up_f32", WeightFormat::kF32, 3072, 576},
};

// One matrix and its inputs, made once.
struct Product {
  Product(const MatrixShape& shape, int rows, const KernelSet& path = FastPath()) : path(path), rows(rows) {
    std::mt19937 rng(1);
    weight = RandomMatrix(rng, shape.format, shape.outputs, shape.inputs);
    weight.values.clear();
    in = RandomFloats(rng, static_cast<size_t>(rows) * shape.inputs);
    out.resize(static_cast<size_t>(rows) * shape.outputs);
    cells.resize(NumQuantizedCells(rows, shape.inputs));
    scratch = Scratch(shape.inputs, rows);
    params = {&weight.packed, in.data(),     shape.inputs, {cells.data(), shape.inputs / kTileDepth},
              out.data(),     shape.outputs, false};
    path.quantize({in.data(), shape.inputs, params.quantized}, 0, rows);
  }
  // As the backend does: tiles of 2 panels and up to 96 rows.
  void Run() {
    for (int row = 0; row < rows; row += 96) {
      for (int panel = 0; panel < NumPanels(weight.rows); panel += 2) {
        const GemmRange range = {panel, std::min(panel + 2, NumPanels(weight.rows)), row,
                                 std::min(rows, row + 96), panel + 2};
        path.gemm(params, range, reinterpret_cast<std::byte*>(scratch.data()));
      }
    }
  }
  const KernelSet& path;
  int rows;
  TestMatrix weight;
  std::vector<float> in;
  std::vector<float> out;
  std::vector<QuantizedCell> cells;
  std::vector<TestMatrix::Line> scratch;
  GemmParams params;
};

void RunGemm(benchmark::State& state, const MatrixShape& shape, int rows, const KernelSet& path) {
  Product product(shape, rows, path);
  for (auto _ : state) product.Run();
  const double operations = 2.0 * rows * shape.outputs * shape.inputs * state.iterations();
  const double bytes = static_cast<double>(PackedBytes(product.weight.packed)) * state.iterations();
  state.counters["GOPS"] = benchmark::Counter(operations / 1e9, benchmark::Counter::kIsRate);
  state.counters["%peak"] = benchmark::Counter(operations / DotPeak() * 100, benchmark::Counter::kIsRate);
  state.counters["GB/s"] = benchmark::Counter(bytes / 1e9, benchmark::Counter::kIsRate);
  state.counters["%read"] = benchmark::Counter(bytes / ReadPeak() * 100, benchmark::Counter::kIsRate);
}

void BM_Gemm(benchmark::State& state) {
  const MatrixShape& shape = kMatrices[state.range(0)];
  RunGemm(state, shape, static_cast<int>(state.range(1)), FastPath());
  state.SetLabel(shape.name);
}
BENCHMARK(BM_Gemm)
    ->ArgsProduct({benchmark::CreateDenseRange(0, std::size(kMatrices) - 1, 1), {1, 4, 16, 48, 512}})
    ->Unit(benchmark::kMicrosecond);

// Every path and format on one shape.
void BM_Format(benchmark::State& state) {
  const KernelSet* path = PathAt(state.range(0));
  if (path == nullptr) return state.SkipWithError("not on this CPU");
  const WeightFormat format = kAllFormats[state.range(1)];
  RunGemm(state, {"", format, 1536, 768}, static_cast<int>(state.range(2)), *path);
  state.SetLabel(std::string(path->name) + " " + NameOf(format));
}
BENCHMARK(BM_Format)
    ->ArgNames({"path", "format", "rows"})
    ->ArgsProduct({{0, 1, 2}, benchmark::CreateDenseRange(0, std::size(kAllFormats) - 1, 1), {1, 4, 12, 96}})
    ->Unit(benchmark::kMicrosecond);

// A chain of matrices larger than the caches: what decoding at batch size 1 reads.
void BM_GemvStream(benchmark::State& state) {
  std::vector<std::unique_ptr<Product>> layers;
  const int64_t layer_bytes = PackedBytes(Product(kMatrices[2], 1).weight.packed);
  while (static_cast<int64_t>(layers.size()) * layer_bytes < (int64_t{80} << 20)) {
    layers.push_back(std::make_unique<Product>(kMatrices[2], static_cast<int>(state.range(0))));
  }
  for (auto _ : state) {
    for (auto& layer : layers) layer->Run();
  }
  const double bytes = static_cast<double>(layer_bytes) * layers.size() * state.iterations();
  state.counters["GB/s"] = benchmark::Counter(bytes / 1e9, benchmark::Counter::kIsRate);
  state.counters["%read"] = benchmark::Counter(bytes / ReadPeak() * 100, benchmark::Counter::kIsRate);
}
BENCHMARK(BM_GemvStream)->Arg(1)->Arg(2)->Arg(4)->Unit(benchmark::kMillisecond);

// 9 heads over 3 KV heads of 64; `rows` rows that end at `context`.
void BM_Attention(benchmark::State& state) {
  const KernelSet* path = PathAt(state.range(0));
  if (path == nullptr) return state.SkipWithError("not on this CPU");
  const int context = static_cast<int>(state.range(1));
  const int rows = static_cast<int>(state.range(2));
  constexpr int kHeads = 9, kKvHeads = 3, kDim = 64;
  std::mt19937 rng(2);
  std::vector<TestMatrix::Line> storage(2 * KvHalfBytes(KvElement::kBF16, kDim) * kKvHeads * context / 16 /
                                        64);
  std::vector<int32_t> table(context / 16);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
  const KvLayer layer = {reinterpret_cast<std::byte*>(storage.data()), kKvHeads, kDim};
  std::vector<float> qkv = RandomFloats(rng, static_cast<size_t>(context) * (kHeads + 2 * kKvHeads) * kDim);
  const std::vector<float> angles(context * kDim / 2, 0.7f);
  path->rope_store({qkv.data(), (kHeads + 2 * kKvHeads) * kDim, kHeads, angles.data(), angles.data(), true,
                    layer, table.data(), 0},
                   0, context);
  std::vector<float> out(static_cast<size_t>(rows) * kHeads * kDim);
  const AttentionParams params = {qkv.data(),   (kHeads + 2 * kKvHeads) * kDim,
                                  out.data(),   kHeads * kDim,
                                  kHeads,       layer,
                                  table.data(), context - rows,
                                  0.125f};
  for (auto _ : state) {
    for (int head = 0; head < kKvHeads; ++head) path->attend(params, head, 0, rows);
  }
  const double keys = rows * (context - rows + (rows + 1) / 2.0) * state.iterations();
  state.counters["GFLOPS"] = benchmark::Counter(keys * kHeads * kDim * 4 / 1e9, benchmark::Counter::kIsRate);
  state.counters["KV GB/s"] =
      benchmark::Counter(keys * kKvHeads * kDim * 4 / 1e9, benchmark::Counter::kIsRate);
}
BENCHMARK(BM_Attention)
    ->ArgNames({"path", "context", "rows"})
    ->ArgsProduct({{0, 1}, {512}, {1, 16, 512}})
    ->ArgsProduct({{0, 1}, {4096}, {1}})
    ->Unit(benchmark::kMicrosecond);

void BM_Elementwise(benchmark::State& state) {
  const KernelSet* path = PathAt(state.range(0));
  if (path == nullptr) return state.SkipWithError("not on this CPU");
  const int64_t operation = state.range(1);
  const int rows = static_cast<int>(state.range(2));
  constexpr int kHidden = 576, kFfn = 1536;
  std::mt19937 rng(3);
  const std::vector<float> in = RandomFloats(rng, static_cast<size_t>(rows) * 2 * kFfn);
  std::vector<float> out(in.size());
  std::vector<QuantizedCell> cells(NumQuantizedCells(rows, kFfn));
  const std::vector<float> weight(kHidden, 1.0f);
  for (auto _ : state) {
    if (operation == 0) path->quantize({in.data(), kFfn, {cells.data(), kFfn / 32}}, 0, rows);
    if (operation == 1) path->silu_mul({in.data(), out.data(), kFfn}, 0, rows);
    if (operation == 2) {
      path->rms_norm({in.data(), weight.data(), out.data(), kHidden, kHidden, kHidden, 1e-5f}, 0, rows);
    }
  }
  state.SetLabel(operation == 0 ? "quantize 1536" : operation == 1 ? "silu_mul 1536" : "rms_norm 576");
}
BENCHMARK(BM_Elementwise)
    ->ArgNames({"path", "operation", "rows"})
    ->ArgsProduct({{0, 1}, {0, 1, 2}, {1, 64}})
    ->Unit(benchmark::kNanosecond);

}  // namespace
}  // namespace qanat::kernels
