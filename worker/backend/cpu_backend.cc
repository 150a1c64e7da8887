#include "worker/backend/cpu_backend.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/cpu_topology.h"
#include "common/base/status_macros.h"
#include "kernels/embed.h"
#include "worker/backend/cpu_backend_impl.h"

namespace qanat::backend {
namespace {

// A tile of an operation on rows: a few microseconds of work. Less is not worth a second thread; were more
// left to one, the others would fall asleep meanwhile, and waking them costs more than the operation.
constexpr int kElementsATile = 4096;
constexpr int kMaxRowsATile = 8;
// A tile of a product: rows whose quantised input stays in a core's own cache, and a few panels, so that
// there are enough tiles for all threads and yet one panel is computed while the next is fetched.
constexpr int64_t kInputBytesATile = 320 << 10;
constexpr int kMinPanelsATile = 2;
constexpr int kMaxPanelsATile = 8;
constexpr int kGemmTilesAThread = 8;
constexpr int kAttentionRows = 16;
// A row's partitions are worth spreading when there are fewer tiles than this for each thread.
constexpr int kTilesAThread = 4;

float* Floats(Activations activations) { return static_cast<float*>(activations.data); }

int CeilDiv(int a, int b) { return (a + b - 1) / b; }

const kernels::KernelSet& BestKernels() {
  if (kernels::CpuHasAvx512()) return kernels::Avx512Kernels();
  return kernels::CpuHasAvx2() ? kernels::Avx2Kernels() : kernels::ScalarKernels();
}

absl::StatusOr<const kernels::KernelSet*> ChooseKernels(const std::string& name) {
  QANAT_RETURN_IF_ERROR(CheckKernels(name));
  if (name == "auto") return &BestKernels();
  if (name == "scalar") return &kernels::ScalarKernels();
  if (name == "reference") return &kernels::ReferenceKernels();
  if (name == "avx2") {
    if (kernels::CpuHasAvx2()) return &kernels::Avx2Kernels();
    return absl::FailedPreconditionError("--kernels=avx2: this CPU lacks AVX2, FMA or F16C");
  }
  if (kernels::CpuHasAvx512()) return &kernels::Avx512Kernels();
  return absl::FailedPreconditionError("--kernels=avx512: this CPU lacks AVX-512 F, BW, VL, DQ or VNNI");
}

}  // namespace

absl::Status CheckKernels(std::string_view name) {
  for (const std::string_view known : {"auto", "avx512", "avx2", "scalar", "reference"}) {
    if (name == known) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--kernels=", std::string(name), ": must be auto, avx512, avx2, scalar or reference"));
}

absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const CpuBackendOptions& options) {
  constexpr int kMaxThreads = 1024;
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("--threads=", options.threads, ": must be between 0 (all) and ", kMaxThreads));
  }
  QANAT_ASSIGN_OR_RETURN(const kernels::KernelSet* kernels, ChooseKernels(options.kernels));
  CpuTopology topology = ReadCpuTopology();
  ThreadPoolOptions threads;
  threads.threads = options.threads > 0 ? options.threads : topology.ComputeThreads();
  if (options.pin) threads.cpus = std::move(topology.cpus);
  return std::make_unique<CpuBackend>(options.float_cache ? kernels::WithFloatCache(*kernels) : *kernels,
                                      std::move(threads));
}

CpuBackend::CpuBackend(const kernels::KernelSet& kernels, ThreadPoolOptions threads)
    : kernels_(kernels), pool_(std::move(threads)), weights_(arena_, pool_), kv_(arena_, kernels.kv_element) {
  gemm_scratch_.resize(pool_.num_threads());
}

absl::StatusOr<Weight> CpuBackend::LoadMatrix(absl::Span<const HostMatrix> parts) {
  QANAT_ASSIGN_OR_RETURN(const Weight weight, weights_.AddMatrix(parts));
  QANAT_RETURN_IF_ERROR(ReserveScratch());
  return weight;
}

absl::StatusOr<Weight> CpuBackend::LoadVector(const HostMatrix& vector) { return weights_.AddVector(vector); }

Weight CpuBackend::LoadRope(absl::Span<const float> cos, absl::Span<const float> sin, int half_head_dim,
                            RopeStyle style) {
  QANAT_CHECK(cos.size() == sin.size() && cos.size() % half_head_dim == 0) << cos.size();
  ropes_.push_back({{cos.begin(), cos.end()}, {sin.begin(), sin.end()}, style});
  return {static_cast<int32_t>(ropes_.size()) - 1, static_cast<int>(cos.size() / half_head_dim),
          half_head_dim};
}

absl::Status CpuBackend::AllocateKv(const KvConfig& config) { return kv_.Allocate(config); }

absl::StatusOr<Activations> CpuBackend::Allocate(int rows, int cols) {
  const int64_t bytes = int64_t{4} * rows * cols;
  QANAT_ASSIGN_OR_RETURN(std::byte* const memory, arena_.Allocate(bytes, "activations"));
  // Taken at once: the next to ask is not told of memory that this one was promised.
  std::memset(memory, 0, bytes);
  max_rows_ = std::max(max_rows_, rows);
  QANAT_RETURN_IF_ERROR(ReserveScratch());
  return Activations{memory, rows, cols};
}

absl::Status CpuBackend::ReserveScratch() {
  constexpr int64_t kCellBytes = sizeof(kernels::QuantizedCell);
  const int64_t cells = kernels::NumQuantizedCells(max_rows_, weights_.max_cols());
  const int64_t scratch = kernels::GemmScratchBytes(weights_.max_cols(), max_rows_) / kCellBytes + 1;
  const int64_t more = cells - static_cast<int64_t>(quantized_.size()) +
                       pool_.num_threads() * (scratch - static_cast<int64_t>(gemm_scratch_[0].size()));
  QANAT_RETURN_IF_ERROR(CheckAvailable(more * kCellBytes, "scratch memory of products"));
  quantized_.resize(cells);
  for (auto& cells_of_thread : gemm_scratch_) cells_of_thread.resize(scratch);
  return absl::OkStatus();
}

float* CpuBackend::Output(Activations out) {
  if (out.data == quantized_input_.data) quantized_input_ = {};
  return Floats(out);
}

ThreadPool& CpuBackend::Threads() {
  pool_.Enter();
  return pool_;
}

template <typename Run>
void CpuBackend::ForRows(int rows, int cols, const Run& run) {
  const int step = std::clamp(kElementsATile / std::max(cols, 1), 1, kMaxRowsATile);
  Threads().ParallelFor(CeilDiv(rows, step),
                        [&](int tile, int) { run(tile * step, std::min(rows, (tile + 1) * step)); });
}

void CpuBackend::Embed(Weight table, absl::Span<const TokenId> ids, float scale, Activations out) {
  const CpuMatrix& matrix = weights_.matrix(table);
  QANAT_CHECK(matrix.segments.size() == 1) << "an embedding table has one part";
  const kernels::EmbedParams params{&matrix.segments[0].packed, ids.data(), scale, Output(out)};
  ForRows(static_cast<int>(ids.size()), out.cols,
          [&](int begin, int end) { kernels::Embed(params, begin, end); });
}

kernels::QuantizeParams CpuBackend::QuantizationOf(Activations in) {
  return {Floats(in), in.cols, {quantized_.data(), in.cols / kernels::kTileDepth}};
}

template <typename Make>
void CpuBackend::MakeInput(Activations out, const Make& make) {
  const bool quantize = kernels_.quantizes_activations && weights_.HasQuantized(out.cols);
  const kernels::QuantizeParams params = QuantizationOf(out);
  ForRows(out.rows, out.cols, [&](int begin, int end) {
    make(begin, end);
    if (quantize) kernels_.quantize(params, begin, end);
  });
  if (quantize) quantized_input_ = out;
}

void CpuBackend::RmsNorm(Activations in, Weight weight, float eps, Activations out) {
  const kernels::RmsNormParams params{
      Floats(in), weights_.vector(weight), Output(out), in.cols, out.cols, in.cols, eps};
  MakeInput(out, [&](int begin, int end) { kernels_.rms_norm(params, begin, end); });
}

void CpuBackend::RmsNormAdd(Activations in, Weight weight, float eps, Activations out) {
  const kernels::RmsNormParams params{
      Floats(in), weights_.vector(weight), Output(out), in.cols, out.cols, in.cols, eps, true};
  ForRows(in.rows, in.cols, [&](int begin, int end) { kernels_.rms_norm(params, begin, end); });
}

void CpuBackend::HeadNorm(Activations heads, int first_head, int num_heads, Weight weight, float eps) {
  const int head_dim = weight.cols;
  float* const first = Output(heads) + int64_t{first_head} * head_dim;
  ForRows(heads.rows, num_heads * head_dim, [&](int begin, int end) {
    for (int row = begin; row < end; ++row) {
      float* const at = first + int64_t{row} * heads.cols;
      kernels_.rms_norm({at, weights_.vector(weight), at, head_dim, head_dim, head_dim, eps}, 0, num_heads);
    }
  });
}

void CpuBackend::FillRows(Weight vector, Activations out) {
  QANAT_DCHECK(vector.cols == out.cols);
  float* const output = Output(out);
  ForRows(out.rows, out.cols, [&](int begin, int end) {
    for (int row = begin; row < end; ++row) {
      std::memcpy(output + int64_t{row} * out.cols, weights_.vector(vector), sizeof(float) * out.cols);
    }
  });
}

void CpuBackend::MatMul(Weight w, Activations in, Activations out) { Multiply(w, in, out, false); }

void CpuBackend::MatMulAdd(Weight w, Activations in, Activations out) { Multiply(w, in, out, true); }

kernels::QuantizedRows CpuBackend::QuantizedInput(Activations in) {
  const kernels::QuantizeParams params = QuantizationOf(in);
  const bool ready = quantized_input_.data == in.data && quantized_input_.cols == in.cols &&
                     quantized_input_.rows >= in.rows;
  if (!ready) {
    ForRows(in.rows, in.cols, [&](int begin, int end) { kernels_.quantize(params, begin, end); });
    quantized_input_ = in;
  }
  return params.out;
}

CpuBackend::GemmTiling CpuBackend::TilingOf(const CpuMatrix& matrix, int rows) const {
  constexpr int kBlock = kernels::kRowBlock;
  const int64_t input_bytes =
      int64_t{rows} * matrix.cols / kernels::kTileDepth * sizeof(kernels::QuantizedCell);
  const int chunks = static_cast<int>(input_bytes / kInputBytesATile) + 1;
  GemmTiling tiling;
  tiling.rows_a_tile = CeilDiv(CeilDiv(rows, chunks), kBlock) * kBlock;
  int panels = 0;
  for (const MatrixSegment& segment : matrix.segments) panels += kernels::NumPanels(segment.packed.rows);
  const int wanted = panels * chunks / (kGemmTilesAThread * pool_.num_threads());
  tiling.panels_a_tile = std::clamp(wanted / 2 * 2, kMinPanelsATile, kMaxPanelsATile);
  for (const MatrixSegment& segment : matrix.segments) {
    tiling.column_tiles += CeilDiv(kernels::NumPanels(segment.packed.rows), tiling.panels_a_tile);
  }
  return tiling;
}

void CpuBackend::Multiply(Weight w, Activations in, Activations out, bool accumulate) {
  QANAT_DCHECK(in.cols == w.cols && out.cols == w.rows && in.rows == out.rows);
  const CpuMatrix& matrix = weights_.matrix(w);
  kernels::QuantizedRows quantized;
  if (matrix.quantized && kernels_.quantizes_activations) quantized = QuantizedInput(in);
  float* const output = Output(out);
  const GemmTiling tiling = TilingOf(matrix, in.rows);
  const int step = tiling.panels_a_tile;
  Threads().ParallelFor(
      CeilDiv(in.rows, tiling.rows_a_tile) * tiling.column_tiles, [&](int tile, int thread) {
        int column = tile % tiling.column_tiles;
        const MatrixSegment* segment = matrix.segments.data();
        while (column >= CeilDiv(kernels::NumPanels(segment->packed.rows), step)) {
          column -= CeilDiv(kernels::NumPanels(segment->packed.rows), step);
          ++segment;
        }
        const int row = tile / tiling.column_tiles * tiling.rows_a_tile;
        const kernels::GemmParams params{
            &segment->packed, Floats(in), in.cols, quantized, output + segment->first_output,
            out.cols,         accumulate};
        const kernels::GemmRange range{
            column * step, std::min(kernels::NumPanels(segment->packed.rows), (column + 1) * step), row,
            std::min(in.rows, row + tiling.rows_a_tile), (column + pool_.num_threads()) * step};
        kernels_.gemm(params, range, reinterpret_cast<std::byte*>(gemm_scratch_[thread].data()));
      });
}

void CpuBackend::SiluMul(Activations gate_up, Activations out) {
  const kernels::SiluMulParams params{Floats(gate_up), Output(out), out.cols};
  MakeInput(out, [&](int begin, int end) { kernels_.silu_mul(params, begin, end); });
}

void CpuBackend::GeluMul(Activations gate_up, Activations out) {
  const kernels::GeluMulParams params{Floats(gate_up), Output(out), out.cols};
  MakeInput(out, [&](int begin, int end) { kernels_.gelu_mul(params, begin, end); });
}

void CpuBackend::GatherRows(Activations in, absl::Span<const int32_t> rows, Activations out) {
  float* const output = Output(out);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(output + i * out.cols, Floats(in) + int64_t{rows[i]} * in.cols, sizeof(float) * in.cols);
  }
}

void CpuBackend::SplitRows(const BatchLayout& batch, int rows_a_run) {
  runs_.clear();
  for (const BatchLayout::Sequence& sequence : batch.sequences) {
    for (int begin = 0; begin < sequence.num_rows; begin += rows_a_run) {
      runs_.push_back({&sequence, begin, std::min(sequence.num_rows, begin + rows_a_run)});
    }
  }
}

void CpuBackend::RopeAndStoreKv(Activations qkv, int num_heads, Weight rope, int layer,
                                const BatchLayout& batch) {
  const Rope& table = ropes_[rope.id];
  SplitRows(batch, kAttentionRows);
  float* const rotated = Output(qkv);
  const auto run_one = [&](const RowRun& run) {
    kernels::RopeStoreParams params;
    params.qkv = rotated + int64_t{run.sequence->first_row} * qkv.cols;
    params.stride = qkv.cols;
    params.num_heads = num_heads;
    params.cos = table.cos.data();
    params.sin = table.sin.data();
    params.interleaved = table.style == RopeStyle::kInterleaved;
    params.kv = kv_.Layer(layer);
    params.block_table = run.sequence->block_table.data();
    params.first_position = run.sequence->first_position;
    kernels_.rope_store(params, run.begin, run.end);
  };
  const bool serial = int64_t{batch.num_rows} * qkv.cols <= kElementsATile;
  const int tiles = serial ? 1 : static_cast<int>(runs_.size());
  Threads().ParallelFor(tiles, [&](int tile, int) {
    if (!serial) return run_one(runs_[tile]);
    for (const RowRun& run : runs_) run_one(run);
  });
}

kernels::AttentionParams CpuBackend::AttentionOf(const RowRun& run, Activations qkv,
                                                 const AttentionSpec& spec, Activations out) const {
  kernels::AttentionParams params;
  params.q = Floats(qkv) + int64_t{run.sequence->first_row} * qkv.cols;
  params.q_stride = qkv.cols;
  params.out = Floats(out) + int64_t{run.sequence->first_row} * out.cols;
  params.out_stride = out.cols;
  params.num_heads = spec.num_heads;
  params.kv = kv_.Layer(spec.layer);
  params.block_table = run.sequence->block_table.data();
  params.first_position = run.sequence->first_position;
  params.scale = spec.scale;
  params.window = spec.window;
  return params;
}

void CpuBackend::Attention(Activations qkv, const AttentionSpec& spec, const BatchLayout& batch,
                           Activations out) {
  out.data = Output(out);
  if (ShouldSplitPartitions(batch)) return AttendByPartition(qkv, spec, batch, out);
  SplitRows(batch, kAttentionRows);
  const int kv_heads = kv_.config().num_kv_heads;
  Threads().ParallelFor(static_cast<int>(runs_.size()) * kv_heads, [&](int tile, int) {
    const RowRun& run = runs_[tile / kv_heads];
    kernels_.attend(AttentionOf(run, qkv, spec, out), tile % kv_heads, run.begin, run.end);
  });
}

bool CpuBackend::ShouldSplitPartitions(const BatchLayout& batch) const {
  if (pool_.num_threads() == 1 ||
      batch.num_rows * kv_.config().num_kv_heads >= kTilesAThread * pool_.num_threads()) {
    return false;
  }
  for (const BatchLayout::Sequence& sequence : batch.sequences) {
    if (sequence.first_position >= kernels::kPartitionKeys) return true;
  }
  return false;
}

void CpuBackend::AttendByPartition(Activations qkv, const AttentionSpec& spec, const BatchLayout& batch,
                                   Activations out) {
  SplitRows(batch, 1);
  const int kv_heads = kv_.config().num_kv_heads;
  const int group = spec.num_heads / kv_heads;
  int partitions = 1;
  for (const RowRun& run : runs_) {
    partitions = std::max(partitions, kernels::NumPartitions(run.sequence->first_position + run.begin));
  }
  const int rows_and_heads = static_cast<int>(runs_.size()) * kv_heads;
  partials_.resize(std::max<size_t>(partials_.size(), int64_t{rows_and_heads} * partitions * group));
  Threads().ParallelFor(rows_and_heads * partitions, [&](int tile, int) {
    const int index = tile / partitions;
    const int partition = tile % partitions;
    const RowRun& run = runs_[index / kv_heads];
    const kernels::AttentionParams params = AttentionOf(run, qkv, spec, out);
    const int position = run.sequence->first_position + run.begin;
    if (partition < kernels::FirstPartition(params, position)) return;
    if (partition >= kernels::NumPartitions(position)) return;
    kernels_.attend_partition(params, index % kv_heads, run.begin, partition,
                              &partials_[int64_t{tile} * group]);
  });
  for (int index = 0; index < rows_and_heads; ++index) {
    const RowRun& run = runs_[index / kv_heads];
    kernels_.merge_partitions(AttentionOf(run, qkv, spec, out), index % kv_heads, run.begin,
                              &partials_[int64_t{index} * partitions * group]);
  }
}

absl::Span<const float> CpuBackend::Row(Activations in, int row) {
  return {Floats(in) + int64_t{row} * in.cols, static_cast<size_t>(in.cols)};
}

std::string CpuBackend::Numerics() const {
  return absl::StrCat("k1-", kernels_.name,
                      kernels_.kv_element == kernels::KvElement::kF32 ? "-f32kv" : "-bf16kv");
}

}  // namespace qanat::backend
