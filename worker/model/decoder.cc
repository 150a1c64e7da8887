#include "worker/model/decoder.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/model/decoder_weights.h"

namespace qanat::model {
namespace {

using backend::Activations;
using backend::Backend;
using backend::BatchLayout;
using backend::Weight;

// What a step computes in.
struct StepMemory {
  Activations hidden, normed, qkv, attended, gate_up, activated;  // [max_tokens, ...]
  Activations last_hidden, last_attended, logits;                 // [max_logit_rows, ...]
};

absl::StatusOr<StepMemory> AllocateStep(const ModelConfig& config, const StepLimits& limits,
                                        Backend& backend) {
  StepMemory memory;
  const struct {
    Activations& of;
    int rows;
    int cols;
  } kParts[] = {
      {memory.hidden, limits.max_tokens, config.hidden_size},
      {memory.normed, limits.max_tokens, config.hidden_size},
      {memory.qkv, limits.max_tokens, config.qkv_size()},
      {memory.attended, limits.max_tokens, config.q_size()},
      {memory.gate_up, limits.max_tokens, 2 * config.ffn_size},
      {memory.activated, limits.max_tokens, config.ffn_size},
      {memory.last_hidden, limits.max_logit_rows, config.hidden_size},
      {memory.last_attended, limits.max_logit_rows, config.q_size()},
      {memory.logits, limits.max_logit_rows, config.vocab_size},
  };
  for (const auto& part : kParts) {
    auto allocated = backend.Allocate(part.rows, part.cols);
    if (!allocated.ok()) {
      return absl::Status(allocated.status().code(),
                          absl::StrCat("--max-batch-tokens, --max-seqs: a step of ", limits.max_tokens,
                                       " tokens and ", limits.max_logit_rows,
                                       " rows of logits: ", std::string(allocated.status().message())));
    }
    part.of = *allocated;
  }
  return memory;
}

// What: the layers of Llama, with what a LayerStyle adds to them. See Model.
class Decoder : public Model {
 public:
  Decoder(const ModelConfig& config, DecoderWeights weights, const StepMemory& memory, Backend& backend,
          const StepLimits& limits)
      : config_(config), weights_(std::move(weights)), memory_(memory), backend_(backend), limits_(limits) {}

  Activations Forward(absl::Span<const TokenId> ids, const BatchLayout& batch,
                      absl::Span<const int32_t> logit_rows) override {
    const int rows = batch.num_rows;
    const int num_logits = static_cast<int>(logit_rows.size());
    QANAT_CHECK(rows > 0 && rows <= limits_.max_tokens && rows == static_cast<int>(ids.size()))
        << rows << " rows";
    QANAT_CHECK(num_logits <= limits_.max_logit_rows) << num_logits << " rows of logits";
    Activations hidden = memory_.hidden.First(rows);
    backend_.Embed(weights_.embedding, ids, config_.embedding_scale, hidden);
    const int last = config_.num_layers - 1;
    for (int layer = 0; layer < last; ++layer) {
      StoreKeysAndValues(layer, hidden, batch);
      Attend(layer, batch);
      Feed(layer, memory_.attended.First(rows), hidden);
    }
    StoreKeysAndValues(last, hidden, batch);
    if (num_logits == 0) return memory_.logits.First(0);
    Attend(last, batch);
    // Nothing reads the last layer's other rows.
    Activations last_hidden = memory_.last_hidden.First(num_logits);
    Activations last_attended = memory_.last_attended.First(num_logits);
    backend_.GatherRows(hidden, logit_rows, last_hidden);
    backend_.GatherRows(memory_.attended.First(rows), logit_rows, last_attended);
    Feed(last, last_attended, last_hidden);
    backend_.RmsNorm(last_hidden, weights_.final_norm, config_.rms_eps, memory_.normed.First(num_logits));
    backend_.MatMul(weights_.head, memory_.normed.First(num_logits), memory_.logits.First(num_logits));
    return memory_.logits.First(num_logits);
  }

  const StepLimits& limits() const override { return limits_; }

 private:
  // hidden -> memory_.qkv, its queries rotated; its keys, rotated, and values -> the cache.
  void StoreKeysAndValues(int layer, Activations hidden, const BatchLayout& batch) {
    const LayerWeights& weights = weights_.layers[layer];
    Activations normed = memory_.normed.First(hidden.rows);
    Activations qkv = memory_.qkv.First(hidden.rows);
    backend_.RmsNorm(hidden, weights.attention_norm, config_.rms_eps, normed);
    if (config_.style.qkv_bias) {
      backend_.FillRows(weights.qkv_bias, qkv);
      backend_.MatMulAdd(weights.qkv, normed, qkv);
    } else {
      backend_.MatMul(weights.qkv, normed, qkv);
    }
    if (config_.style.qk_norm) {
      backend_.HeadNorm(qkv, 0, config_.num_heads, weights.q_norm, config_.rms_eps);
      backend_.HeadNorm(qkv, config_.num_heads, config_.num_kv_heads, weights.k_norm, config_.rms_eps);
    }
    const Weight rope = config_.IsLocal(layer) ? weights_.local_rope : weights_.rope;
    backend_.RopeAndStoreKv(qkv, config_.num_heads, rope, layer, batch);
  }

  // memory_.qkv and the cache -> memory_.attended.
  void Attend(int layer, const BatchLayout& batch) {
    const backend::AttentionSpec spec = {.num_heads = config_.num_heads,
                                         .layer = layer,
                                         .scale = config_.attention_scale,
                                         .window = config_.IsLocal(layer) ? config_.window : 0};
    backend_.Attention(memory_.qkv.First(batch.num_rows), spec, batch,
                       memory_.attended.First(batch.num_rows));
  }

  // hidden += output(attended); hidden += down(activation(gate) * up), gate and up of the norm of that sum.
  void Feed(int layer, Activations attended, Activations hidden) {
    const LayerWeights& weights = weights_.layers[layer];
    Activations normed = memory_.normed.First(hidden.rows);
    Activations gate_up = memory_.gate_up.First(hidden.rows);
    Activations activated = memory_.activated.First(hidden.rows);
    AddProduct(weights.output, attended, weights.post_attention_norm, hidden);
    backend_.RmsNorm(hidden, weights.ffn_norm, config_.rms_eps, normed);
    backend_.MatMul(weights.gate_up, normed, gate_up);
    if (config_.style.activation == Activation::kGelu) {
      backend_.GeluMul(gate_up, activated);
    } else {
      backend_.SiluMul(gate_up, activated);
    }
    AddProduct(weights.down, activated, weights.post_ffn_norm, hidden);
  }

  // hidden += in * w^T, or the norm of that product.
  void AddProduct(Weight w, Activations in, Weight post_norm, Activations hidden) {
    if (!config_.style.post_norms) return backend_.MatMulAdd(w, in, hidden);
    Activations product = memory_.normed.First(hidden.rows);  // whose norm was multiplied already
    backend_.MatMul(w, in, product);
    backend_.RmsNormAdd(product, post_norm, config_.rms_eps, hidden);
  }

  const ModelConfig config_;
  const DecoderWeights weights_;
  const StepMemory memory_;
  Backend& backend_;
  const StepLimits limits_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> CreateDecoder(const GgufFile& file, const ModelConfig& config,
                                                     Backend& backend, const StepLimits& limits) {
  QANAT_ASSIGN_OR_RETURN(DecoderWeights weights,
                         LoadDecoderWeights(file, config, limits.max_context, backend));
  QANAT_ASSIGN_OR_RETURN(const StepMemory memory, AllocateStep(config, limits, backend));
  return std::unique_ptr<Model>(new Decoder(config, std::move(weights), memory, backend, limits));
}

}  // namespace qanat::model
