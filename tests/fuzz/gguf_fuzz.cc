// Any bytes as a model file: everything that is read before weights are loaded. An answer or an error, never
// a fault, and every view that comes back lies inside the file.
#include <cstddef>
#include <cstdint>

#include "common/base/check.h"
#include "worker/model/model_config.h"
#include "worker/model/weights/gguf.h"
#include "worker/model/weights/vocabulary.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qanat::model;
  const absl::Span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = GgufFile::Parse("fuzz.gguf", bytes);
  if (!file.ok()) {
    QANAT_CHECK(file.status().message().substr(0, 11) == "fuzz.gguf: ") << file.status().ToString();
    return 0;
  }
  for (const GgufTensor& tensor : (*file)->tensors()) {
    QANAT_CHECK(tensor.data.data() >= bytes.data() &&
                tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size());
    QANAT_CHECK((*file)->FindTensor(tensor.name) == &tensor);
  }
  const auto vocabulary = ReadVocabulary(**file);
  if (vocabulary.ok()) QANAT_CHECK(vocabulary->kinds.size() == vocabulary->tokens.size());
  const auto config = ReadModelConfig(**file);
  if (config.ok()) QANAT_CHECK(config->head_dim > 0 && config->num_heads % config->num_kv_heads == 0);
  return 0;
}
