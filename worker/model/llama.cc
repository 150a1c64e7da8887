#include "worker/model/llama.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/model/rope.h"
#include "worker/model/weights/tensor_reader.h"

namespace qanat::model {
namespace {

using backend::Activations;
using backend::Backend;
using backend::BatchLayout;
using backend::HostMatrix;
using backend::Weight;

// Of one layer; see Llama::Layer for what they do.
struct LayerWeights {
  Weight attention_norm;
  Weight qkv;     // query, key and value rows, stacked
  Weight output;  // of attention
  Weight ffn_norm;
  Weight gate_up;  // gate and up rows, stacked
  Weight down;
};

struct LlamaWeights {
  Weight embedding;
  std::vector<LayerWeights> layers;
  Weight final_norm;
  Weight head;
  Weight rope;
};

// What: the layers of Llama. See Model.
class Llama : public Model {
 public:
  Llama(const ModelConfig& config, LlamaWeights weights, Backend& backend, const StepLimits& limits)
      : config_(config),
        weights_(std::move(weights)),
        backend_(backend),
        limits_(limits),
        attention_scale_(static_cast<float>(1 / std::sqrt(static_cast<double>(config.head_dim)))),
        hidden_(backend.Allocate(limits.max_tokens, config.hidden_size)),
        normed_(backend.Allocate(limits.max_tokens, config.hidden_size)),
        qkv_(backend.Allocate(limits.max_tokens, config.qkv_size())),
        attended_(backend.Allocate(limits.max_tokens, config.q_size())),
        gate_up_(backend.Allocate(limits.max_tokens, 2 * config.ffn_size)),
        activated_(backend.Allocate(limits.max_tokens, config.ffn_size)),
        last_hidden_(backend.Allocate(limits.max_logit_rows, config.hidden_size)),
        last_attended_(backend.Allocate(limits.max_logit_rows, config.q_size())),
        logits_(backend.Allocate(limits.max_logit_rows, config.vocab_size)) {}

  Activations Forward(absl::Span<const TokenId> ids, const BatchLayout& batch,
                      absl::Span<const int32_t> logit_rows) override {
    const int rows = batch.num_rows;
    const int num_logits = static_cast<int>(logit_rows.size());
    QANAT_CHECK(rows > 0 && rows <= limits_.max_tokens && rows == static_cast<int>(ids.size()))
        << rows << " rows";
    QANAT_CHECK(num_logits <= limits_.max_logit_rows) << num_logits << " rows of logits";
    Activations hidden = hidden_.First(rows);
    backend_.Embed(weights_.embedding, ids, 1.0f, hidden);
    const int last = config_.num_layers - 1;
    for (int layer = 0; layer < last; ++layer) {
      Attend(layer, hidden, batch);
      Feed(layer, attended_.First(rows), hidden);
    }
    StoreKeysAndValues(last, hidden, batch);
    if (num_logits == 0) return logits_.First(0);
    // Nothing reads the last layer's other rows.
    backend_.Attention(qkv_.First(rows), AttentionOf(last), batch, attended_.First(rows));
    Activations last_hidden = last_hidden_.First(num_logits);
    Activations last_attended = last_attended_.First(num_logits);
    backend_.GatherRows(hidden, logit_rows, last_hidden);
    backend_.GatherRows(attended_.First(rows), logit_rows, last_attended);
    Feed(last, last_attended, last_hidden);
    backend_.RmsNorm(last_hidden, weights_.final_norm, config_.rms_eps, normed_.First(num_logits));
    backend_.MatMul(weights_.head, normed_.First(num_logits), logits_.First(num_logits));
    return logits_.First(num_logits);
  }

  const StepLimits& limits() const override { return limits_; }

 private:
  void StoreKeysAndValues(int layer, Activations hidden, const BatchLayout& batch) {
    const LayerWeights& weights = weights_.layers[layer];
    Activations normed = normed_.First(hidden.rows);
    Activations qkv = qkv_.First(hidden.rows);
    backend_.RmsNorm(hidden, weights.attention_norm, config_.rms_eps, normed);
    backend_.MatMul(weights.qkv, normed, qkv);
    backend_.RopeAndStoreKv(qkv, config_.num_heads, weights_.rope, layer, batch);
  }

  backend::AttentionSpec AttentionOf(int layer) const {
    return {.num_heads = config_.num_heads, .layer = layer, .scale = attention_scale_};
  }

  // hidden -> attended_.
  void Attend(int layer, Activations hidden, const BatchLayout& batch) {
    StoreKeysAndValues(layer, hidden, batch);
    backend_.Attention(qkv_.First(hidden.rows), AttentionOf(layer), batch, attended_.First(hidden.rows));
  }

  // hidden += output(attended); hidden += down(silu(gate) * up), gate and up of the norm of that sum.
  void Feed(int layer, Activations attended, Activations hidden) {
    const LayerWeights& weights = weights_.layers[layer];
    Activations normed = normed_.First(hidden.rows);
    Activations gate_up = gate_up_.First(hidden.rows);
    Activations activated = activated_.First(hidden.rows);
    backend_.MatMulAdd(weights.output, attended, hidden);
    backend_.RmsNorm(hidden, weights.ffn_norm, config_.rms_eps, normed);
    backend_.MatMul(weights.gate_up, normed, gate_up);
    backend_.SiluMul(gate_up, activated);
    backend_.MatMulAdd(weights.down, activated, hidden);
  }

  const ModelConfig config_;
  const LlamaWeights weights_;
  Backend& backend_;
  const StepLimits limits_;
  const float attention_scale_;
  // [max_tokens, ...]
  const Activations hidden_, normed_, qkv_, attended_, gate_up_, activated_;
  // [max_logit_rows, ...]
  const Activations last_hidden_, last_attended_, logits_;
};

// Moves one model's tensors from a file into a backend.
class LlamaLoader {
 public:
  LlamaLoader(const GgufFile& file, const ModelConfig& config, Backend& backend)
      : file_(file), config_(config), backend_(backend), tensors_(file) {}

  absl::StatusOr<LlamaWeights> Load(int max_context) {
    LlamaWeights weights;
    QANAT_ASSIGN_OR_RETURN(const HostMatrix embedding,
                           Matrix("token_embd", config_.vocab_size, config_.hidden_size));
    QANAT_ASSIGN_OR_RETURN(weights.embedding, backend_.LoadMatrix({&embedding, 1}));
    for (int layer = 0; layer < config_.num_layers; ++layer) {
      QANAT_ASSIGN_OR_RETURN(weights.layers.emplace_back(), LoadLayer(absl::StrCat("blk.", layer, ".")));
    }
    QANAT_ASSIGN_OR_RETURN(weights.final_norm, Vector("output_norm"));
    QANAT_ASSIGN_OR_RETURN(weights.head, LoadHead(embedding, weights.embedding));
    QANAT_RETURN_IF_ERROR(tensors_.CheckAllTaken());
    QANAT_ASSIGN_OR_RETURN(weights.rope, LoadRope(max_context));
    return weights;
  }

 private:
  absl::StatusOr<HostMatrix> Matrix(std::string_view name, int64_t rows, int64_t cols) {
    return tensors_.Matrix(absl::StrCat(std::string(name), ".weight"), rows, cols);
  }

  absl::StatusOr<Weight> Vector(std::string_view name) {
    QANAT_ASSIGN_OR_RETURN(const HostMatrix vector,
                           tensors_.Vector(absl::StrCat(std::string(name), ".weight"), config_.hidden_size));
    return backend_.LoadVector(vector);
  }

  absl::StatusOr<LayerWeights> LoadLayer(const std::string& prefix) {
    const int hidden = config_.hidden_size;
    const int ffn = config_.ffn_size;
    LayerWeights layer;
    QANAT_ASSIGN_OR_RETURN(layer.attention_norm, Vector(prefix + "attn_norm"));
    QANAT_ASSIGN_OR_RETURN(const HostMatrix query, Matrix(prefix + "attn_q", config_.q_size(), hidden));
    QANAT_ASSIGN_OR_RETURN(const HostMatrix key, Matrix(prefix + "attn_k", config_.kv_size(), hidden));
    QANAT_ASSIGN_OR_RETURN(const HostMatrix value, Matrix(prefix + "attn_v", config_.kv_size(), hidden));
    QANAT_ASSIGN_OR_RETURN(layer.qkv, backend_.LoadMatrix({query, key, value}));
    QANAT_ASSIGN_OR_RETURN(const HostMatrix output, Matrix(prefix + "attn_output", hidden, config_.q_size()));
    QANAT_ASSIGN_OR_RETURN(layer.output, backend_.LoadMatrix({output}));
    QANAT_ASSIGN_OR_RETURN(layer.ffn_norm, Vector(prefix + "ffn_norm"));
    QANAT_ASSIGN_OR_RETURN(const HostMatrix gate, Matrix(prefix + "ffn_gate", ffn, hidden));
    QANAT_ASSIGN_OR_RETURN(const HostMatrix up, Matrix(prefix + "ffn_up", ffn, hidden));
    QANAT_ASSIGN_OR_RETURN(layer.gate_up, backend_.LoadMatrix({gate, up}));
    QANAT_ASSIGN_OR_RETURN(const HostMatrix down, Matrix(prefix + "ffn_down", hidden, ffn));
    QANAT_ASSIGN_OR_RETURN(layer.down, backend_.LoadMatrix({down}));
    return layer;
  }

  // The head is the embedding when the file has no other, also when it repeats it: its memory is taken once.
  absl::StatusOr<Weight> LoadHead(const HostMatrix& embedding, Weight loaded_embedding) {
    if (config_.tied_embeddings) return loaded_embedding;
    QANAT_ASSIGN_OR_RETURN(const HostMatrix head, Matrix("output", config_.vocab_size, config_.hidden_size));
    if (head.type == embedding.type &&
        std::memcmp(head.data.data(), embedding.data.data(), head.data.size()) == 0) {
      return loaded_embedding;
    }
    return backend_.LoadMatrix({head});
  }

  absl::StatusOr<Weight> LoadRope(int max_context) {
    // A number in the file must not buy memory that the file's own size does not account for.
    constexpr int64_t kFreeBytes = int64_t{32} << 20;
    const int half = config_.head_dim / 2;
    const int64_t bytes = int64_t{max_context} * half * 2 * static_cast<int64_t>(sizeof(float));
    if (bytes > kFreeBytes && bytes > static_cast<int64_t>(file_.bytes().size())) {
      return file_.Error(absl::StrCat(config_.architecture, ".context_length"),
                         absl::StrCat("tables for ", max_context, " positions take ", bytes,
                                      " bytes, more than the model itself: set a lower limit"));
    }
    const RopeTable table = MakeRopeTable(config_.rope_base, config_.head_dim, max_context);
    return backend_.LoadRope(table.cos, table.sin, half, backend::RopeStyle::kInterleaved);
  }

  const GgufFile& file_;
  const ModelConfig& config_;
  Backend& backend_;
  TensorReader tensors_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> CreateLlama(const GgufFile& file, const ModelConfig& config,
                                                   Backend& backend, StepLimits limits) {
  QANAT_ASSIGN_OR_RETURN(LlamaWeights weights, LlamaLoader(file, config, backend).Load(limits.max_context));
  return std::unique_ptr<Model>(new Llama(config, std::move(weights), backend, limits));
}

}  // namespace qanat::model
