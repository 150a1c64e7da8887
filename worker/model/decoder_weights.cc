#include "worker/model/decoder_weights.h"

#include <cstring>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/model/rope.h"
#include "worker/model/weights/tensor_reader.h"

namespace qanat::model {
namespace {

using backend::Backend;
using backend::HostMatrix;
using backend::Weight;

constexpr std::string_view kRopeDivisors = "rope_freqs.weight";

// Walks the tensors that a config asks for; without a backend it only looks at them.
class Loader {
 public:
  Loader(const GgufFile& file, const ModelConfig& config, Backend* backend)
      : file_(file), config_(config), backend_(backend), tensors_(file) {}

  absl::StatusOr<DecoderWeights> Load(int max_context) {
    DecoderWeights weights;
    QANAT_ASSIGN_OR_RETURN(const HostMatrix embedding,
                           Matrix("token_embd", config_.vocab_size, config_.hidden_size));
    QANAT_ASSIGN_OR_RETURN(weights.embedding, Keep({&embedding, 1}));
    for (int layer = 0; layer < config_.num_layers; ++layer) {
      QANAT_ASSIGN_OR_RETURN(weights.layers.emplace_back(), LoadLayer(absl::StrCat("blk.", layer, ".")));
    }
    QANAT_ASSIGN_OR_RETURN(weights.final_norm, Norm("output_norm", config_.hidden_size));
    QANAT_ASSIGN_OR_RETURN(weights.head, LoadHead(embedding, weights.embedding));
    QANAT_RETURN_IF_ERROR(LoadRopes(max_context, weights));
    QANAT_RETURN_IF_ERROR(tensors_.CheckAllTaken());
    return weights;
  }

 private:
  absl::StatusOr<HostMatrix> Matrix(const std::string& name, int64_t rows, int64_t cols) {
    return tensors_.Matrix(name + ".weight", rows, cols);
  }

  absl::StatusOr<Weight> Norm(const std::string& name, int size) {
    QANAT_ASSIGN_OR_RETURN(const HostMatrix vector, tensors_.Vector(name + ".weight", size));
    return KeepVector(vector);
  }

  // Stacked, see Backend.
  absl::StatusOr<Weight> Keep(absl::Span<const HostMatrix> parts) {
    if (backend_ == nullptr) return Weight();
    return backend_->LoadMatrix(parts);
  }
  absl::StatusOr<Weight> KeepVector(const HostMatrix& vector) {
    if (backend_ == nullptr) return Weight();
    return backend_->LoadVector(vector);
  }

  absl::StatusOr<LayerWeights> LoadLayer(const std::string& prefix) {
    LayerWeights layer;
    QANAT_RETURN_IF_ERROR(LoadAttention(prefix, layer));
    QANAT_RETURN_IF_ERROR(LoadFeedForward(prefix, layer));
    if (!config_.style.post_norms) return layer;
    QANAT_ASSIGN_OR_RETURN(layer.post_attention_norm,
                           Norm(prefix + "post_attention_norm", config_.hidden_size));
    QANAT_ASSIGN_OR_RETURN(layer.post_ffn_norm, Norm(prefix + "post_ffw_norm", config_.hidden_size));
    return layer;
  }

  absl::Status LoadAttention(const std::string& prefix, LayerWeights& layer) {
    const int hidden = config_.hidden_size;
    QANAT_ASSIGN_OR_RETURN(layer.attention_norm, Norm(prefix + "attn_norm", hidden));
    QANAT_ASSIGN_OR_RETURN(const HostMatrix query, Matrix(prefix + "attn_q", config_.q_size(), hidden));
    QANAT_ASSIGN_OR_RETURN(const HostMatrix key, Matrix(prefix + "attn_k", config_.kv_size(), hidden));
    QANAT_ASSIGN_OR_RETURN(const HostMatrix value, Matrix(prefix + "attn_v", config_.kv_size(), hidden));
    QANAT_ASSIGN_OR_RETURN(layer.qkv, Keep({query, key, value}));
    if (config_.style.qkv_bias) {
      QANAT_ASSIGN_OR_RETURN(layer.qkv_bias, LoadBias(prefix));
    }
    if (config_.style.qk_norm) {
      QANAT_ASSIGN_OR_RETURN(layer.q_norm, Norm(prefix + "attn_q_norm", config_.head_dim));
      QANAT_ASSIGN_OR_RETURN(layer.k_norm, Norm(prefix + "attn_k_norm", config_.head_dim));
    }
    QANAT_ASSIGN_OR_RETURN(const HostMatrix output, Matrix(prefix + "attn_output", hidden, config_.q_size()));
    QANAT_ASSIGN_OR_RETURN(layer.output, Keep({output}));
    return absl::OkStatus();
  }

  // The biases of queries, keys and values as one vector.
  absl::StatusOr<Weight> LoadBias(const std::string& prefix) {
    std::vector<std::byte> joined;
    const auto append = [&](const char* name, int size) -> absl::Status {
      QANAT_ASSIGN_OR_RETURN(const HostMatrix part, tensors_.Vector(prefix + name, size));
      joined.insert(joined.end(), part.data.begin(), part.data.end());
      return absl::OkStatus();
    };
    QANAT_RETURN_IF_ERROR(append("attn_q.bias", config_.q_size()));
    QANAT_RETURN_IF_ERROR(append("attn_k.bias", config_.kv_size()));
    QANAT_RETURN_IF_ERROR(append("attn_v.bias", config_.kv_size()));
    const std::string name = prefix + "attn_qkv.bias";
    return KeepVector({name, backend::DType::kF32, 1, config_.qkv_size(), joined});
  }

  absl::Status LoadFeedForward(const std::string& prefix, LayerWeights& layer) {
    const int hidden = config_.hidden_size;
    const int ffn = config_.ffn_size;
    QANAT_ASSIGN_OR_RETURN(layer.ffn_norm, Norm(prefix + "ffn_norm", hidden));
    QANAT_ASSIGN_OR_RETURN(const HostMatrix gate, Matrix(prefix + "ffn_gate", ffn, hidden));
    QANAT_ASSIGN_OR_RETURN(const HostMatrix up, Matrix(prefix + "ffn_up", ffn, hidden));
    QANAT_ASSIGN_OR_RETURN(layer.gate_up, Keep({gate, up}));
    QANAT_ASSIGN_OR_RETURN(const HostMatrix down, Matrix(prefix + "ffn_down", hidden, ffn));
    QANAT_ASSIGN_OR_RETURN(layer.down, Keep({down}));
    return absl::OkStatus();
  }

  // The head is the embedding when the file has no other, also when it repeats it: its memory is taken once.
  absl::StatusOr<Weight> LoadHead(const HostMatrix& embedding, Weight loaded_embedding) {
    if (config_.tied_embeddings) return loaded_embedding;
    QANAT_ASSIGN_OR_RETURN(const HostMatrix head, Matrix("output", config_.vocab_size, config_.hidden_size));
    // Looking alone reads no weights.
    if (backend_ != nullptr && head.type == embedding.type &&
        std::memcmp(head.data.data(), embedding.data.data(), head.data.size()) == 0) {
      return loaded_embedding;
    }
    return Keep({head});
  }

  absl::Status LoadRopes(int max_context, DecoderWeights& weights) {
    // A number in the file must not buy memory that the file's own size does not account for.
    constexpr int64_t kFreeBytes = int64_t{32} << 20;
    const int tables = config_.window > 0 ? 2 : 1;
    const int64_t bytes =
        int64_t{max_context} * config_.head_dim * tables * static_cast<int64_t>(sizeof(float));
    if (bytes > kFreeBytes && bytes > static_cast<int64_t>(file_.bytes().size())) {
      return file_.Error(
          absl::StrCat(config_.architecture, ".context_length"),
          absl::StrCat("tables for ", max_context, " positions take ", bytes,
                       " bytes, more than the model itself: serve fewer with --context-length"));
    }
    QANAT_ASSIGN_OR_RETURN(const std::vector<float> divisors, RopeDivisors());
    if (backend_ == nullptr) return absl::OkStatus();
    weights.rope =
        Load(MakeRopeTable(config_.rope_base, config_.rope_scaling, divisors, config_.head_dim, max_context));
    if (config_.window > 0) {
      weights.local_rope =
          Load(MakeRopeTable(config_.local_rope_base, {}, {}, config_.head_dim, max_context));
    }
    return absl::OkStatus();
  }

  Weight Load(const RopeTable& table) {
    return backend_->LoadRope(table.cos, table.sin, config_.head_dim / 2, config_.style.rope);
  }

  // Empty when the file has none.
  absl::StatusOr<std::vector<float>> RopeDivisors() {
    constexpr float kLargest = 65536;
    std::vector<float> divisors;
    if (file_.FindTensor(kRopeDivisors) == nullptr) return divisors;
    QANAT_ASSIGN_OR_RETURN(const HostMatrix tensor, tensors_.Vector(kRopeDivisors, config_.head_dim / 2));
    divisors.resize(config_.head_dim / 2);
    std::memcpy(divisors.data(), tensor.data.data(), tensor.data.size());
    for (const float divisor : divisors) {
      if (!(divisor >= 1 / kLargest && divisor <= kLargest)) {
        return file_.Error(kRopeDivisors, absl::StrCat("no frequency can be divided by ", divisor));
      }
    }
    return divisors;
  }

  const GgufFile& file_;
  const ModelConfig& config_;
  Backend* const backend_;
  TensorReader tensors_;
};

}  // namespace

absl::Status CheckDecoderTensors(const GgufFile& file, const ModelConfig& config, int max_context) {
  return Loader(file, config, nullptr).Load(max_context).status();
}

absl::StatusOr<DecoderWeights> LoadDecoderWeights(const GgufFile& file, const ModelConfig& config,
                                                  int max_context, Backend& backend) {
  QANAT_RETURN_IF_ERROR(CheckDecoderTensors(file, config, max_context));
  return Loader(file, config, &backend).Load(max_context);
}

}  // namespace qanat::model
