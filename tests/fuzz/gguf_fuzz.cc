// Any bytes as a model file: everything that is read and checked before weights are moved. An answer or an
// error that begins with the file's name, never a fault.
//
// Laws:
//  1 every view of a file that parses lies inside it
//  2 a vocabulary that is read is consistent; a tokenizer is made of it, or its key is named
//  3 a config that is read has sizes that fit; its tensors are there, or one is named
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/text/tokenizer.h"
#include "worker/model/decoder_weights.h"
#include "worker/model/model_config.h"
#include "worker/model/weights/gguf.h"
#include "worker/model/weights/vocabulary.h"

namespace qanat::model {
namespace {

void CheckNamed(const absl::Status& status) {
  if (status.ok()) return;
  QANAT_CHECK(status.message().substr(0, 11) == "fuzz.gguf: ") << status.ToString();
  QANAT_CHECK(status.message().size() < 1000) << status.ToString();
}

void CheckViews(const GgufFile& file) {
  const std::byte* const begin = file.bytes().data();
  for (const GgufTensor& tensor : file.tensors()) {
    QANAT_CHECK(tensor.data.data() >= begin &&
                tensor.data.data() + tensor.data.size() <= begin + file.bytes().size());
    QANAT_CHECK(file.FindTensor(tensor.name) == &tensor);
  }
}

void ReadTokenizer(const GgufFile& file) {
  auto vocabulary = ReadVocabulary(file);
  CheckNamed(vocabulary.status());
  if (!vocabulary.ok()) return;
  const size_t size = vocabulary->tokens.size();
  QANAT_CHECK(vocabulary->kinds.size() == size);
  for (const TokenId id : {vocabulary->bos, vocabulary->eos, vocabulary->unk, vocabulary->pad}) {
    QANAT_CHECK(id >= -1 && id < static_cast<TokenId>(size));
  }
  const auto tokenizer = text::Tokenizer::Create(*std::move(vocabulary));
  if (tokenizer.ok()) {
    for (const TokenId id : (*tokenizer)->Encode("ab c")) {
      QANAT_CHECK(id >= 0 && id < (*tokenizer)->size());
    }
  } else {
    QANAT_CHECK(FieldOf(tokenizer.status()).rfind("tokenizer.ggml.", 0) == 0)
        << tokenizer.status().ToString();
  }
}

void ReadShape(const GgufFile& file) {
  const auto config = ReadModelConfig(file);
  CheckNamed(config.status());
  if (!config.ok()) return;
  QANAT_CHECK(config->head_dim > 0 && config->num_heads % config->num_kv_heads == 0);
  CheckNamed(CheckDecoderTensors(file, *config, std::min(config->context_length, 4096)));
}

}  // namespace
}  // namespace qanat::model

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qanat::model;
  const auto file = GgufFile::Parse("fuzz.gguf", {reinterpret_cast<const std::byte*>(data), size});
  CheckNamed(file.status());
  if (!file.ok()) return 0;
  CheckViews(**file);
  ReadTokenizer(**file);
  ReadShape(**file);
  return 0;
}
