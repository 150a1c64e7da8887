// A decoder's tensors, moved from a file into a backend.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/model/model_config.h"
#include "worker/model/weights/gguf.h"

namespace qanat::model {

// Of one layer. Weights that the model's style does not have are none (id < 0).
struct LayerWeights {
  backend::Weight attention_norm;
  backend::Weight qkv;       // query, key and value rows, stacked
  backend::Weight qkv_bias;  // in the same order
  backend::Weight q_norm;    // [head_dim]
  backend::Weight k_norm;
  backend::Weight output;  // of attention
  backend::Weight post_attention_norm;
  backend::Weight ffn_norm;
  backend::Weight gate_up;  // gate and up rows, stacked
  backend::Weight down;
  backend::Weight post_ffn_norm;
};

struct DecoderWeights {
  backend::Weight embedding;
  std::vector<LayerWeights> layers;
  backend::Weight final_norm;
  backend::Weight head;
  backend::Weight rope;
  backend::Weight local_rope;  // of local layers
};

// Whether a file has the tensors that its config asks for. Errors as GgufFile's, naming the tensor: missing,
// of another shape or type, or one that nothing would use. Reads no weights and takes no memory for them.
absl::Status CheckDecoderTensors(const GgufFile& file, const ModelConfig& config, int max_context);

// Checks all of that before the first weight is moved. Errors of the backend beside.
absl::StatusOr<DecoderWeights> LoadDecoderWeights(const GgufFile& file, const ModelConfig& config,
                                                  int max_context, backend::Backend& backend);

}  // namespace qanat::model
