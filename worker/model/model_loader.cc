#include "worker/model/model_loader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/hash/fingerprint.h"
#include "worker/model/decoder.h"
#include "worker/model/weights/gguf.h"
#include "worker/model/weights/vocabulary.h"

namespace qanat::model {
namespace {

absl::StatusOr<int> ResolveContext(const ModelConfig& config, int max_context) {
  if (max_context == 0) return config.context_length;
  if (max_context > 1 && max_context <= config.context_length) return max_context;
  return InvalidField("--context-length", absl::StrCat("must be between 2 and the model's ",
                                                       config.context_length, ", got ", max_context));
}

absl::Status ResolveLimits(const ModelConfig& config, StepLimits& limits) {
  if (limits.max_tokens < 1) return InvalidField("max_tokens", "must be positive");
  if (limits.max_logit_rows < 1) return InvalidField("max_logit_rows", "must be positive");
  // A row of logits belongs to a token of the step.
  if (limits.max_logit_rows > limits.max_tokens) limits.max_logit_rows = limits.max_tokens;
  QANAT_ASSIGN_OR_RETURN(limits.max_context, ResolveContext(config, limits.max_context));
  return absl::OkStatus();
}

// What knows nothing of files (a tokenizer, a backend) cannot name the one at fault.
absl::Status NamingFile(const std::string& path, const absl::Status& status) {
  if (absl::StartsWith(status.message(), path)) return status;
  absl::Status named(status.code(), absl::StrCat(path, ": ", status.message()));
  return FieldOf(status).empty() ? named : WithField(named, FieldOf(status));
}

absl::StatusOr<LoadedModel> Describe(const GgufFile& file) {
  LoadedModel loaded;
  QANAT_ASSIGN_OR_RETURN(loaded.config, ReadModelConfig(file));
  QANAT_ASSIGN_OR_RETURN(text::Vocabulary vocabulary, ReadVocabulary(file));
  auto tokenizer = text::Tokenizer::Create(std::move(vocabulary));
  if (!tokenizer.ok()) return NamingFile(file.name(), tokenizer.status());
  loaded.tokenizer = *std::move(tokenizer);
  return loaded;
}

// What comes before the weights.
absl::Span<const std::byte> HeaderOf(const GgufFile& file) {
  size_t size = file.bytes().size();
  for (const GgufTensor& tensor : file.tensors()) {
    size = std::min(size, static_cast<size_t>(tensor.data.data() - file.bytes().data()));
  }
  return file.bytes().first(size);
}

}  // namespace

absl::StatusOr<LoadedModel> LoadWithoutWeights(const std::string& path, int max_context) {
  QANAT_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  QANAT_ASSIGN_OR_RETURN(LoadedModel loaded, Describe(*file));
  QANAT_ASSIGN_OR_RETURN(loaded.context_length, ResolveContext(loaded.config, max_context));
  loaded.fingerprint = hash::Fingerprint(HeaderOf(*file));
  return loaded;
}

absl::StatusOr<LoadedModel> LoadModel(const std::string& path, backend::Backend& backend, StepLimits limits) {
  QANAT_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  QANAT_ASSIGN_OR_RETURN(LoadedModel loaded, Describe(*file));
  QANAT_RETURN_IF_ERROR(ResolveLimits(loaded.config, limits));
  auto model = CreateDecoder(*file, loaded.config, backend, limits);
  if (!model.ok()) return NamingFile(path, model.status());
  loaded.model = *std::move(model);
  loaded.context_length = limits.max_context;
  loaded.fingerprint = hash::Fingerprint(file->bytes());
  return loaded;
}

}  // namespace qanat::model
