// A model as a walk of layers over one device's operations.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "worker/backend/backend.h"

namespace qanat::model {

// How much one step may hold: activations are allocated once, for these sizes.
struct StepLimits {
  int max_tokens = 512;
  // Rows of logits: sequences that draw a token, and prompt tokens that are scored.
  int max_logit_rows = 64;
  // Positions 0 .. max_context - 1 (--context-length); 0: the model's context length, which is also the most.
  int max_context = 0;
};

// What: one family's layers. Owns its activations' views; weights and memory are the backend's, which
// outlives it. Threads: the backend's one caller. Errors: none after it was created. A row's logits depend on
// its own sequence's tokens only, never on the other rows of the step nor on how its sequence was cut into
// steps.
class Model {
 public:
  virtual ~Model() = default;

  // Computes keys and values of every row, into the cache, and the logits [logit_rows.size(), vocab_size]
  // that follow the rows named by `logit_rows`, ascending. The view is valid until the next call; it can be
  // read after the backend's Synchronize(). REQUIRES: ids.size() == batch.num_rows, within 1 .. max_tokens;
  // ids inside the vocabulary; positions below max_context; at most max_logit_rows logit rows; AllocateKv was
  // called.
  virtual backend::Activations Forward(absl::Span<const TokenId> ids, const backend::BatchLayout& batch,
                                       absl::Span<const int32_t> logit_rows) = 0;

  // The limits it was created with, max_context resolved.
  virtual const StepLimits& limits() const = 0;
};

}  // namespace qanat::model
