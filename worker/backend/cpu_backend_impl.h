// The class behind CreateCpuBackend.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel_set.h"
#include "worker/backend/arena.h"
#include "worker/backend/cpu_backend.h"
#include "worker/backend/cpu_weights.h"
#include "worker/backend/kv_arena.h"
#include "worker/backend/thread_pool.h"

namespace qanat::backend {

// What: each operation fills a params struct and runs one path's kernel over tiles on the thread pool.
// Owns weights, activations, KV cache and compute threads. Activations are float32, row-major, without gaps.
// Threads and errors: as Backend says; the thread that calls operations, not the one that loads, becomes
// compute thread 0. A product's input is quantised once: by the operation that makes it, while it is near,
// where that works row by row; by the product otherwise.
class CpuBackend final : public Backend {
 public:
  CpuBackend(const kernels::KernelSet& kernels, ThreadPoolOptions threads);

  absl::StatusOr<Weight> LoadMatrix(absl::Span<const HostMatrix> parts) override;
  absl::StatusOr<Weight> LoadVector(const HostMatrix& vector) override;
  Weight LoadRope(absl::Span<const float> cos, absl::Span<const float> sin, int half_head_dim,
                  RopeStyle style) override;
  absl::Status AllocateKv(const KvConfig& config) override;
  absl::StatusOr<Activations> Allocate(int rows, int cols) override;

  void Embed(Weight table, absl::Span<const TokenId> ids, float scale, Activations out) override;
  void RmsNorm(Activations in, Weight weight, float eps, Activations out) override;
  void RmsNormAdd(Activations in, Weight weight, float eps, Activations out) override;
  void HeadNorm(Activations heads, int first_head, int num_heads, Weight weight, float eps) override;
  void FillRows(Weight vector, Activations out) override;
  void MatMul(Weight w, Activations in, Activations out) override;
  void MatMulAdd(Weight w, Activations in, Activations out) override;
  void RopeAndStoreKv(Activations qkv, int num_heads, Weight rope, int layer,
                      const BatchLayout& batch) override;
  void Attention(Activations qkv, const AttentionSpec& spec, const BatchLayout& batch,
                 Activations out) override;
  void SiluMul(Activations gate_up, Activations out) override;
  void GeluMul(Activations gate_up, Activations out) override;
  void GatherRows(Activations in, absl::Span<const int32_t> rows, Activations out) override;

  void Synchronize() override {}
  absl::Span<const float> Row(Activations in, int row) override;
  void PoisonBlocks(absl::Span<const int32_t> blocks) override { kv_.Poison(blocks); }

  std::string Numerics() const override;
  int64_t BlockBytes(const KvConfig& config) const override { return kv_.BlockBytes(config); }
  int64_t WeightBytes() const override { return weights_.bytes(); }

 private:
  struct Rope {
    std::vector<float> cos;
    std::vector<float> sin;
    RopeStyle style;
  };
  // Consecutive rows of one sequence of a batch: a tile of the operations that need positions.
  struct RowRun {
    const BatchLayout::Sequence* sequence;
    int begin;
    int end;
  };
  // How a product is cut into tiles: whole panels of a segment times rows, columns first.
  struct GemmTiling {
    int rows_a_tile = 0;
    int panels_a_tile = 0;
    int column_tiles = 0;
  };

  // The pool, with the calling thread as its thread 0.
  ThreadPool& Threads();
  // Room for the largest product that weights and activations so far allow. RESOURCE_EXHAUSTED as Arena's.
  absl::Status ReserveScratch();
  // Where an operation writes; what had been quantised of these activations is void from here on.
  float* Output(Activations out);
  // Calls run(begin, end) over all rows, on one thread when there is little work.
  template <typename Run>
  void ForRows(int rows, int cols, const Run& run);
  void SplitRows(const BatchLayout& batch, int rows_a_run);
  GemmTiling TilingOf(const CpuMatrix& matrix, int rows) const;
  void Multiply(Weight w, Activations in, Activations out, bool accumulate);
  // Calls make(begin, end) over all rows of `out`, and quantises them where a product may read them.
  template <typename Make>
  void MakeInput(Activations out, const Make& make);
  kernels::QuantizeParams QuantizationOf(Activations in);
  kernels::QuantizedRows QuantizedInput(Activations in);
  kernels::AttentionParams AttentionOf(const RowRun& run, Activations qkv, const AttentionSpec& spec,
                                       Activations out) const;
  // Spreads a single row's partitions over the threads: for steps of few rows with many keys.
  bool ShouldSplitPartitions(const BatchLayout& batch) const;
  void AttendByPartition(Activations qkv, const AttentionSpec& spec, const BatchLayout& batch,
                         Activations out);

  const kernels::KernelSet kernels_;
  Arena arena_;
  ThreadPool pool_;
  CpuWeights weights_;
  KvArena kv_;
  std::vector<Rope> ropes_;
  int max_rows_ = 0;
  std::vector<kernels::QuantizedCell> quantized_;
  Activations quantized_input_;  // whose rows quantized_ holds; data is null when it holds none
  std::vector<std::vector<kernels::QuantizedCell>> gemm_scratch_;  // by thread; cells for their alignment
  std::vector<RowRun> runs_;
  std::vector<kernels::AttentionPartial> partials_;
};

}  // namespace qanat::backend
