// The shape of a model, as data.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/model/registry.h"
#include "worker/model/rope.h"
#include "worker/model/weights/gguf.h"

namespace qanat::model {

struct ModelConfig {
  std::string architecture;  // GGUF's name of the family: "llama"
  std::string name;          // general.name; empty when the file has none
  std::string quantization;  // the most frequent type of the matrices: "Q4_1"
  int num_layers = 0;
  int hidden_size = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int ffn_size = 0;
  int vocab_size = 0;
  int context_length = 0;
  float rms_eps = 0;
  LayerStyle style;
  float embedding_scale = 1;
  float attention_scale = 0;  // of the scores
  double rope_base = 0;
  RopeScaling rope_scaling;
  // Local layers see the last `window` keys and rotate by local_rope_base, without scaling; 0: there are
  // none. Every window_pattern-th layer is not local.
  int window = 0;
  int window_pattern = 0;
  double local_rope_base = 0;
  // No output.weight in the file: the embedding is the head too.
  bool tied_embeddings = false;

  int q_size() const { return num_heads * head_dim; }
  int kv_size() const { return num_kv_heads * head_dim; }
  bool IsLocal(int layer) const { return window > 0 && (layer + 1) % window_pattern != 0; }
  int qkv_size() const { return q_size() + 2 * kv_size(); }
};

// Reads and checks the keys "<architecture>.*": sizes are positive, fit each other and bound what is
// allocated later. Whatever would change the arithmetic and is not honoured (experts, other ways to scale
// positions, ...) is refused by its key with UNIMPLEMENTED, as is an architecture that is not known. Errors
// as GgufFile's. Tensors are checked when they are loaded.
absl::StatusOr<ModelConfig> ReadModelConfig(const GgufFile& file);

// The KV cache that this model needs.
backend::KvConfig KvConfigFor(const ModelConfig& config, int block_size, int num_blocks,
                              backend::KvFormat format);

}  // namespace qanat::model
