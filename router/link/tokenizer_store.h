// Tokenizers that were fetched from workers.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/text/tokenizer.h"
#include "qanat/cluster/v1/worker.pb.h"

namespace qanat::text {
class ChatTemplate;
}

namespace qanat::router {

// What a model's file says about text. Shared by everyone who serves the model.
struct ModelText {
  std::shared_ptr<const text::Tokenizer> tokenizer;         // not null
  std::shared_ptr<const text::ChatTemplate> chat_template;  // null: none, or not understood
};

// As a worker sent it. A chat template that is not understood is logged and left out; any other fault is
// INVALID_ARGUMENT or UNIMPLEMENTED.
absl::StatusOr<ModelText> MakeModelText(const cluster::v1::Tokenizer& proto);

// What: one ModelText a model for as long as someone uses it: thousands of workers of one model cost one
// vocabulary, and a worker that comes back is not asked for it again. Owns nothing of them. Threads: any.
class TokenizerStore {
 public:
  // By model fingerprint; the tokenizer is null when nobody holds one.
  ModelText Find(const std::string& fingerprint) const EXCLUDES(mu_);
  // Of two that are put for one model, the first stays; returns it.
  ModelText Put(const std::string& fingerprint, ModelText text) EXCLUDES(mu_);

 private:
  struct Entry {
    std::weak_ptr<const text::Tokenizer> tokenizer;
    std::weak_ptr<const text::ChatTemplate> chat_template;
  };

  mutable Mutex mu_;
  std::map<std::string, Entry> entries_ GUARDED_BY(mu_);
};

}  // namespace qanat::router
