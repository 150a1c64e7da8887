// The operations of one device, as a model's layers call them. A model walks its layers over this interface
// and knows neither threads nor instruction sets; a backend knows no model.
//
// Shapes are [rows, cols], row-major; a row is one token of the step. Operations run in the order they are
// called; what they wrote is visible to the next one, and to the host after Synchronize().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace qanat::backend {

// Storage formats of weights, by their GGUF names. A backend refuses those that it cannot compute with.
enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};

// How keys and values are stored in the cache.
enum class KvFormat : uint8_t { kF32, kBF16, kInt8 };

// A matrix in a model file: `rows` outputs of `cols` inputs each, in the file's encoding of `type`.
// `data` is only read during the call it is given to.
struct HostMatrix {
  std::string_view name;
  DType type = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  absl::Span<const std::byte> data;
};

// A weight owned by the backend. id < 0: none.
struct Weight {
  int32_t id = -1;
  int rows = 0;
  int cols = 0;
};

// A view of activations in the device's memory and format, owned by the backend. Cheap to copy; a prefix of
// its rows is a view too.
struct Activations {
  void* data = nullptr;
  int rows = 0;
  int cols = 0;
  Activations First(int n) const { return {data, n, cols}; }
};

struct KvConfig {
  int num_layers = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int block_size = 16;  // tokens a block
  int num_blocks = 0;
  KvFormat format = KvFormat::kBF16;
};

// Which elements of a head RoPE rotates together: (2i, 2i+1), as GGUF stores Llama, or (i, i + head_dim/2).
enum class RopeStyle : uint8_t { kInterleaved, kHalves };

// What a layer's attention is like.
struct AttentionSpec {
  int num_heads = 0;
  int layer = 0;
  float scale = 1;  // of the scores
  int window = 0;   // how many keys a row sees at most, its own the last; 0: all
};

// The rows of one step: consecutive positions of some sequences, one sequence after the other.
// The row of sequence s at position p is first_row + (p - first_position).
struct BatchLayout {
  struct Sequence {
    int first_row = 0;
    int num_rows = 0;
    int first_position = 0;
    // Physical blocks of positions 0 .. first_position + num_rows - 1, in order.
    absl::Span<const int32_t> block_table;
  };
  std::vector<Sequence> sequences;
  int num_rows = 0;
};

// What: memory and arithmetic of one device. Owns weights, rope tables, activations and the KV arena, for as
// long as it lives. Threads: one caller at a time (the engine thread). Errors: loading and allocation return
// a Status; operations have preconditions only, since everything that can be wrong was checked before.
class Backend {
 public:
  virtual ~Backend() = default;

  // --- Loading
  // ----------------------------------------------------------------------------------------------- Stacks
  // the rows of `parts` (equal cols; types may differ) into one matrix and keeps it in a layout of its own.
  // UNIMPLEMENTED naming the tensor and its type when the type is not supported.
  virtual absl::StatusOr<Weight> LoadMatrix(absl::Span<const HostMatrix> parts) = 0;
  // A vector of F32 (norm weights, biases): rows = 1.
  virtual absl::StatusOr<Weight> LoadVector(const HostMatrix& vector) = 0;
  // cos and sin are [max_positions, head_dim / 2], computed by the caller in double precision.
  virtual Weight LoadRope(absl::Span<const float> cos, absl::Span<const float> sin, int half_head_dim,
                          RopeStyle style) = 0;
  // RESOURCE_EXHAUSTED with both sizes in the message when the memory is not there. Called once.
  virtual absl::Status AllocateKv(const KvConfig& config) = 0;
  // Activations of at most `rows` rows. RESOURCE_EXHAUSTED as AllocateKv's.
  virtual absl::StatusOr<Activations> Allocate(int rows, int cols) = 0;

  // --- Operations
  // -------------------------------------------------------------------------------------------- out[r, :] =
  // scale * table[ids[r], :].
  virtual void Embed(Weight table, absl::Span<const TokenId> ids, float scale, Activations out) = 0;
  // out[r, :] = in[r, :] / sqrt(mean(in[r, :]^2) + eps) * weight.
  virtual void RmsNorm(Activations in, Weight weight, float eps, Activations out) = 0;
  // out[r, :] += in[r, :] / sqrt(mean(in[r, :]^2) + eps) * weight.
  virtual void RmsNormAdd(Activations in, Weight weight, float eps, Activations out) = 0;
  // RmsNorm of each of the heads [first_head, first_head + num_heads) of every row by itself, in place; a
  // head is as wide as the weight.
  virtual void HeadNorm(Activations heads, int first_head, int num_heads, Weight weight, float eps) = 0;
  // out[r, :] = vector: what MatMulAdd adds to is then a bias.
  virtual void FillRows(Weight vector, Activations out) = 0;
  // out = in * w^T: [rows, w.cols] -> [rows, w.rows]. Activations are quantised the same way for any row
  // count.
  virtual void MatMul(Weight w, Activations in, Activations out) = 0;
  // out += in * w^T.
  virtual void MatMulAdd(Weight w, Activations in, Activations out) = 0;
  // qkv is [rows, (num_heads + 2 * num_kv_heads) * head_dim]: rotates the queries in place and the keys on
  // their way to the cache of `layer`; values go there as they are.
  virtual void RopeAndStoreKv(Activations qkv, int num_heads, Weight rope, int layer,
                              const BatchLayout& batch) = 0;
  // Causal attention over the cache of `layer`, also for the rows just stored:
  // out is [rows, num_heads * head_dim].
  virtual void Attention(Activations qkv, const AttentionSpec& spec, const BatchLayout& batch,
                         Activations out) = 0;
  // out[r, i] = silu(gate_up[r, i]) * gate_up[r, ffn + i], gate_up being [rows, 2 * ffn].
  virtual void SiluMul(Activations gate_up, Activations out) = 0;
  // The same with gelu, approximated by tanh.
  virtual void GeluMul(Activations gate_up, Activations out) = 0;
  // out[i, :] = in[rows[i], :].
  virtual void GatherRows(Activations in, absl::Span<const int32_t> rows, Activations out) = 0;

  // --- Host's side
  // ------------------------------------------------------------------------------------------- Waits for
  // what was called so far.
  virtual void Synchronize() = 0;
  // A row as float32, valid until the next operation. REQUIRES: Synchronize() since it was written.
  virtual absl::Span<const float> Row(Activations in, int row) = 0;
  // Fills blocks with 0xFF, so that a test sees whoever reads a block that nobody owns.
  virtual void PoisonBlocks(absl::Span<const int32_t> blocks) = 0;

  // --- Facts
  // ------------------------------------------------------------------------------------------------- What
  // decides the bits of a result beside the weights: kernel version, instruction set, KV format.
  virtual std::string Numerics() const = 0;
  // Bytes of the KV cache that one block of `config` takes.
  virtual int64_t BlockBytes(const KvConfig& config) const = 0;
  virtual int64_t WeightBytes() const = 0;
};

}  // namespace qanat::backend
