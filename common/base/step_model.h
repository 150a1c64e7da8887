// How long a step of an engine takes, as a formula of few coefficients: fitted to real steps, it predicts
// them for the scheduler, prices them for the router and replaces them in simulations.
#pragma once

#include <algorithm>
#include <cstdint>

namespace qanat {

// What a step has to do.
struct StepShape {
  int64_t sequences = 0;
  int64_t tokens = 0;           // computed, over all sequences
  int64_t context_tokens = 0;   // the sum over sequences of the keys that their last token reads
  int64_t chunk_attention = 0;  // the sum over sequences with more than one token of tokens * context

  bool operator==(const StepShape&) const = default;
};

// Coefficients in microseconds. Source of the form: docs/engine.md, "Step model".
struct StepModel {
  double fixed_us = 0;
  double sequence_us = 0;   // a sequence
  double weights_us = 0;    // reading the weights once: the least that tokens cost
  double token_us = 0;      // a token
  double context_us = 0;    // a token of context
  double attention_us = 0;  // a token times a token of context, of chunks

  double PredictUs(const StepShape& shape) const {
    return fixed_us + sequence_us * static_cast<double>(shape.sequences) +
           std::max(weights_us, token_us * static_cast<double>(shape.tokens)) +
           context_us * static_cast<double>(shape.context_tokens) +
           attention_us * static_cast<double>(shape.chunk_attention);
  }
  bool operator==(const StepModel&) const = default;
};

}  // namespace qanat
