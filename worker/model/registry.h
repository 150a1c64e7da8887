// The families of models that this build knows, as data: what their layers do beyond Llama's.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/model/weights/gguf.h"

namespace qanat::model {

// The function of the gate in a feed-forward layer.
enum class Activation { kSilu, kGelu };

struct LayerStyle {
  backend::RopeStyle rope = backend::RopeStyle::kInterleaved;
  bool qkv_bias = false;    // added to queries, keys and values
  bool qk_norm = false;     // an RMS norm of each head of queries and keys, before they are rotated
  bool post_norms = false;  // RMS norms behind attention and feed-forward too, before their sums
  Activation activation = Activation::kSilu;
};

struct Family {
  std::string_view architecture;  // general.architecture
  LayerStyle style;
  bool scaled_embedding = false;  // embeddings are multiplied by sqrt(hidden)
  // Every window_pattern-th layer sees everything, the others a window, with a rope base of their own; both
  // unless the file says otherwise. 0: a family without windows.
  int window_pattern = 0;
  double local_rope_base = 0;
  // Models of so many layers scale scores by 1 / sqrt(hidden / heads) in place of 1 / sqrt(head_dim).
  int layers_scaled_by_hidden = 0;
};

// UNIMPLEMENTED naming the architecture and those that are known.
absl::StatusOr<const Family*> FindFamily(const GgufFile& file);

}  // namespace qanat::model
