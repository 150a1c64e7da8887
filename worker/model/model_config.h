// The shape of a model, as data.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
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
  double rope_base = 0;
  // No output.weight in the file: the embedding is the head too.
  bool tied_embeddings = false;

  int q_size() const { return num_heads * head_dim; }
  int kv_size() const { return num_kv_heads * head_dim; }
  int qkv_size() const { return q_size() + 2 * kv_size(); }
};

// Reads and checks the keys "<architecture>.*": sizes are positive, fit each other and bound what is
// allocated later. Whatever would change the arithmetic and is not honoured (scaled positions, windows,
// experts, ...) is refused by its key with UNIMPLEMENTED. Errors as GgufFile's. Tensors are checked by the
// family that loads them.
absl::StatusOr<ModelConfig> ReadModelConfig(const GgufFile& file);

// The KV cache that this model needs.
backend::KvConfig KvConfigFor(const ModelConfig& config, int block_size, int num_blocks,
                              backend::KvFormat format);

}  // namespace qanat::model
