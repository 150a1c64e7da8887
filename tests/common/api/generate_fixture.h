// A model that is served, and requests to it that are good but for one change.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "common/api/generate.h"

namespace qanat::api {

inline ServedModel Model() {
  ServedModel model;
  model.id = "tiny";
  model.context_length = 128;
  model.vocab_size = 1000;
  model.block_size = 16;
  model.pool_tokens = 4096;
  return model;
}

using Change = std::function<void(v1::GenerateRequest&)>;

// A good request, changed.
inline v1::GenerateRequest With(const Change& change) {
  v1::GenerateRequest request;
  request.set_text("hello");
  change(request);
  return request;
}

inline absl::StatusOr<GenerateParams> Validate(const Change& change) {
  return ValidateGenerate(With(change), Model(), /*drawn_seed=*/77);
}

inline void AddChat(v1::GenerateRequest& r, int messages) {
  for (int i = 0; i < messages; ++i) {
    v1::ChatMessage& message = *r.mutable_chat()->add_messages();
    message.set_role("user");
    message.set_content("x");
  }
}

}  // namespace qanat::api
