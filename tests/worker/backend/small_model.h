// A model over a Backend, with random weights: every operation, as worker/model calls them. Its layers have
// equal weights, each a copy of its own.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "common/base/check.h"
#include "tests/kernels/test_data.h"
#include "worker/backend/cpu_backend.h"

namespace qanat::backend {

struct SmallShape {
  int layers = 1;
  int hidden = 64;
  int num_heads = 4;
  int num_kv_heads = 2;
  int head_dim = 32;
  int ffn = 96;
  int window = 0;
  int vocabulary = 200;
  int num_blocks = 64;
  int max_rows = 256;
  int max_positions = 1024;
  DType type = DType::kQ4_1;
  DType value_type = DType::kQ8_0;  // of the value projection, stacked with the others
  DType table_type = DType::kQ8_0;
};

inline kernels::WeightFormat FormatOf(DType type) {
  switch (type) {
    case DType::kF32:
      return kernels::WeightFormat::kF32;
    case DType::kQ4_1:
      return kernels::WeightFormat::kQ4_1;
    case DType::kQ8_0:
      return kernels::WeightFormat::kQ8_0;
    default:
      QANAT_CHECK(false) << "not used by these tests";
      return kernels::WeightFormat::kF32;
  }
}

// A sequence of a step: its tokens from `first_position` on, in the blocks of `table`.
struct SmallSequence {
  std::vector<TokenId> tokens;
  int first_position = 0;
  std::vector<int32_t> table;
};

class SmallModel {
 public:
  SmallModel(Backend& backend, const SmallShape& shape, uint32_t seed)
      : backend_(backend), shape_(shape), rng_(seed) {
    const int q = shape.num_heads * shape.head_dim;
    const int kv = shape.num_kv_heads * shape.head_dim;
    table_ = Load(1, {{shape.vocabulary, shape.table_type}}, shape.hidden)[0];
    qkv_ = Load(shape.layers, {{q, shape.type}, {kv, shape.type}, {kv, shape.value_type}}, shape.hidden);
    o_ = Load(shape.layers, {{shape.hidden, shape.type}}, q);
    gate_up_ = Load(shape.layers, {{shape.ffn, shape.type}, {shape.ffn, shape.type}}, shape.hidden);
    down_ = Load(shape.layers, {{shape.hidden, shape.type}}, shape.ffn);
    const std::vector<float> norm(shape.hidden, 1.5f);
    norm_ = *backend.LoadVector({"norm", DType::kF32, 1, shape.hidden, Bytes(norm)});
    LoadRope();
    QANAT_CHECK(backend
                    .AllocateKv({shape.layers, shape.num_kv_heads, shape.head_dim, 16, shape.num_blocks,
                                 KvFormat::kBF16})
                    .ok());
    const int rows = shape.max_rows;
    x_ = *backend.Allocate(rows, shape.hidden);
    normed_ = *backend.Allocate(rows, shape.hidden);
    qkv_out_ = *backend.Allocate(rows, q + 2 * kv);
    attended_ = *backend.Allocate(rows, q);
    gate_up_out_ = *backend.Allocate(rows, 2 * shape.ffn);
    activated_ = *backend.Allocate(rows, shape.ffn);
    last_ = *backend.Allocate(rows, shape.hidden);
    logits_ = *backend.Allocate(rows, shape.vocabulary);
  }

  // Logits of every row.
  std::vector<std::vector<float>> Step(const std::vector<SmallSequence>& sequences) {
    const int n = Run(sequences, true);
    std::vector<std::vector<float>> out;
    for (int i = 0; i < n; ++i) {
      const auto row = backend_.Row(logits_, n - 1 - i);
      out.emplace_back(row.begin(), row.end());
    }
    return out;
  }

  // A step with the logits of all rows or of each sequence's last one, which stay on the device; returns the
  // number of rows.
  int Run(const std::vector<SmallSequence>& sequences, bool all_logits) {
    BatchLayout batch;
    std::vector<TokenId> ids;
    std::vector<int32_t> last;
    for (const SmallSequence& s : sequences) {
      batch.sequences.push_back(
          {batch.num_rows, static_cast<int>(s.tokens.size()), s.first_position, s.table});
      batch.num_rows += static_cast<int>(s.tokens.size());
      ids.insert(ids.end(), s.tokens.begin(), s.tokens.end());
      last.push_back(batch.num_rows - 1);
    }
    const int n = batch.num_rows;
    if (all_logits) {
      last.resize(n);
      for (int i = 0; i < n; ++i) last[i] = n - 1 - i;  // reversed, so that gathering is seen
    }
    const int outputs = static_cast<int>(last.size());
    backend_.Embed(table_, ids, 1.0f, x_.First(n));
    for (int layer = 0; layer < shape_.layers; ++layer) Layer(layer, batch);
    backend_.GatherRows(x_.First(n), last, last_.First(outputs));
    backend_.RmsNorm(last_.First(outputs), norm_, 1e-5f, last_.First(outputs));
    backend_.MatMul(table_, last_.First(outputs), logits_.First(outputs));
    backend_.Synchronize();
    return n;
  }

 private:
  template <typename T>
  static absl::Span<const std::byte> Bytes(const std::vector<T>& values) {
    return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)};
  }

  // `copies` matrices of the same parts.
  std::vector<Weight> Load(int copies, const std::vector<std::pair<int, DType>>& parts, int cols) {
    std::vector<kernels::TestMatrix> matrices;
    std::vector<HostMatrix> host;
    for (const auto& [rows, type] : parts)
      matrices.push_back(kernels::RandomMatrix(rng_, FormatOf(type), rows, cols));
    for (size_t i = 0; i < parts.size(); ++i) {
      host.push_back({"weight", parts[i].second, parts[i].first, cols, Bytes(matrices[i].file)});
    }
    std::vector<Weight> weights;
    for (int i = 0; i < copies; ++i) weights.push_back(*backend_.LoadMatrix(host));
    return weights;
  }

  void LoadRope() {
    const int half = shape_.head_dim / 2;
    std::vector<float> cos, sin;
    for (int p = 0; p < shape_.max_positions; ++p) {
      for (int i = 0; i < half; ++i) {
        const double angle = p * std::pow(10000.0, -i / static_cast<double>(half));
        cos.push_back(static_cast<float>(std::cos(angle)));
        sin.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    rope_ = backend_.LoadRope(cos, sin, half, RopeStyle::kInterleaved);
  }

  void Layer(int layer, const BatchLayout& batch) {
    const int n = batch.num_rows;
    backend_.RmsNorm(x_.First(n), norm_, 1e-5f, normed_.First(n));
    backend_.MatMul(qkv_[layer], normed_.First(n), qkv_out_.First(n));
    backend_.RopeAndStoreKv(qkv_out_.First(n), shape_.num_heads, rope_, layer, batch);
    const AttentionSpec attention = {
        .num_heads = shape_.num_heads, .layer = layer, .scale = 0.2f, .window = shape_.window};
    backend_.Attention(qkv_out_.First(n), attention, batch, attended_.First(n));
    backend_.MatMulAdd(o_[layer], attended_.First(n), x_.First(n));
    backend_.RmsNorm(x_.First(n), norm_, 1e-5f, normed_.First(n));
    backend_.MatMul(gate_up_[layer], normed_.First(n), gate_up_out_.First(n));
    backend_.SiluMul(gate_up_out_.First(n), activated_.First(n));
    backend_.MatMulAdd(down_[layer], activated_.First(n), x_.First(n));
  }

  Backend& backend_;
  SmallShape shape_;
  std::mt19937 rng_;
  Weight table_, norm_, rope_;
  std::vector<Weight> qkv_, o_, gate_up_, down_;
  Activations x_, normed_, qkv_out_, attended_, gate_up_out_, activated_, last_, logits_;
};

}  // namespace qanat::backend
