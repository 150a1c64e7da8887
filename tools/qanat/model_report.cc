#include "tools/qanat/model_report.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"
#include "worker/model/decoder_weights.h"
#include "worker/model/model_config.h"
#include "worker/model/weights/gguf.h"
#include "worker/model/weights/gguf_types.h"
#include "worker/model/weights/safetensors.h"
#include "worker/model/weights/vocabulary.h"

namespace qanat::tools {
namespace {

using Json = nlohmann::ordered_json;
using model::GgufFile;
using model::GgufTensor;
using model::SafeTensor;
using model::SafeTensorsFile;

constexpr int kKvElementBytes = 2;  // bf16, as workers keep keys and values

// Adds up tensors, whatever their format.
class Tensors {
 public:
  explicit Tensors(bool list) { listed_ = list ? Json::array() : Json(); }

  void Add(std::string_view name, std::string_view type, const Json& shape, uint64_t elements,
           absl::Span<const std::byte> data, const std::byte* file) {
    ++count_;
    parameters_ += elements;
    bytes_ += data.size();
    auto& [count, bytes] = types_[std::string(type)];
    ++count;
    bytes += data.size();
    if (!listed_.is_array()) return;
    listed_.push_back({{"name", name},
                       {"type", type},
                       {"shape", shape},
                       {"bytes", data.size()},
                       {"offset", data.data() - file}});
  }

  void AddTo(Json& report) const {
    report["parameters"] = parameters_;
    report["tensors"] = count_;
    report["weight_bytes"] = bytes_;
    // The largest part first.
    std::vector<std::pair<std::string, std::pair<int64_t, uint64_t>>> types(types_.begin(), types_.end());
    std::stable_sort(types.begin(), types.end(),
                     [](const auto& a, const auto& b) { return a.second.second > b.second.second; });
    report["types"] = Json::array();
    for (const auto& [type, sums] : types) {
      report["types"].push_back({{"type", type}, {"tensors", sums.first}, {"bytes", sums.second}});
    }
  }
  const Json& listed() const { return listed_; }

 private:
  int64_t count_ = 0;
  uint64_t parameters_ = 0;
  uint64_t bytes_ = 0;
  std::map<std::string, std::pair<int64_t, uint64_t>> types_;
  Json listed_;
};

// Null where it is absent or of another form, which is for the config to tell.
Json NumberOrNull(const GgufFile& file, const std::string& key) {
  const auto value = file.GetU32(key);
  return value.ok() ? Json(*value) : Json();
}
Json TextOrNull(const GgufFile& file, std::string_view key) {
  const auto value = file.GetString(key);
  return value.ok() ? Json(std::string(*value)) : Json();
}

Json TokenOf(const text::Vocabulary& vocabulary, TokenId id) {
  if (id < 0) return Json();
  return {{"id", id}, {"token", vocabulary.tokens[static_cast<size_t>(id)]}};
}

std::string_view KindOf(const text::Vocabulary& vocabulary) {
  if (vocabulary.model == "gpt2") return "byte-level BPE";
  return vocabulary.model == "llama" ? "SentencePiece" : "unknown";
}

// `problem`: why there is no tokenizer; empty: there is.
Json ReportOnVocabulary(const text::Vocabulary& vocabulary, std::string_view problem) {
  Json ends = Json::array();
  for (const TokenId id : vocabulary.eog) ends.push_back(TokenOf(vocabulary, id));
  return {{"model", vocabulary.model},
          {"pre", vocabulary.pre},
          {"kind", KindOf(vocabulary)},
          {"tokens", vocabulary.tokens.size()},
          {"bos", TokenOf(vocabulary, vocabulary.bos)},
          {"eos", TokenOf(vocabulary, vocabulary.eos)},
          {"unknown", TokenOf(vocabulary, vocabulary.unk)},
          {"padding", TokenOf(vocabulary, vocabulary.pad)},
          {"ends_generation", ends},
          {"add_bos", vocabulary.add_bos},
          {"problem", problem.empty() ? Json() : Json(problem)}};
}

// Null: the file has none. Otherwise whether this build understands it, and if not, the line and the reason.
Json ReportOnTemplate(const text::Vocabulary& vocabulary) {
  if (vocabulary.chat_template.empty()) return Json();
  const auto text_of = [&](TokenId id) {
    return id < 0 ? std::string() : vocabulary.tokens[static_cast<size_t>(id)];
  };
  const absl::Status status =
      text::ChatTemplate::Create(vocabulary.chat_template, text_of(vocabulary.bos), text_of(vocabulary.eos))
          .status();
  return {{"bytes", vocabulary.chat_template.size()},
          {"understood", status.ok()},
          {"problem", status.ok() ? Json() : Json(std::string(status.message()))}};
}

// The first reason why a worker of this build would not serve the file; empty: it would.
std::string WhyNotServed(const GgufFile& file, const absl::StatusOr<model::ModelConfig>& config,
                         const absl::Status& tokenizer) {
  const auto reason = [&](const absl::Status& status) {
    // The file's name is the report's first line.
    const std::string message(status.message());
    const std::string prefix = file.name() + ": ";
    return message.rfind(prefix, 0) == 0 ? message.substr(prefix.size()) : message;
  };
  if (!config.ok()) return reason(config.status());
  if (!tokenizer.ok()) return reason(tokenizer);
  return reason(model::CheckDecoderTensors(file, *config, config->context_length));
}

Json Head(const std::string& path, const char* format, size_t bytes) {
  return {{"file", path}, {"format", format}, {"bytes", bytes}};
}

// As the file says it, also where this build does not know the architecture; what follows from it, where it
// does.
void AddShape(const GgufFile& file, const absl::StatusOr<model::ModelConfig>& config, Json& report) {
  const std::string architecture(file.GetStringOr("general.architecture", "").value_or(""));
  for (const auto& [key, name] : {std::pair{"layers", "block_count"},
                                  {"hidden_size", "embedding_length"},
                                  {"ffn_size", "feed_forward_length"},
                                  {"heads", "attention.head_count"},
                                  {"kv_heads", "attention.head_count_kv"},
                                  {"context_length", "context_length"}}) {
    report[key] = NumberOrNull(file, absl::StrCat(architecture, ".", name));
  }
  report["head_dim"] = config.ok() ? Json(config->head_dim) : Json();
  report["kv_bytes_per_token"] =
      config.ok() ? Json(int64_t{2} * config->num_layers * config->kv_size() * kKvElementBytes) : Json();
  report["tied_embeddings"] = file.FindTensor("output.weight") == nullptr;
}

absl::StatusOr<Json> ReportOnGguf(const std::string& path, bool list) {
  QANAT_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  const auto config = model::ReadModelConfig(*file);
  auto vocabulary = model::ReadVocabulary(*file);
  const absl::Status tokenizer =
      vocabulary.ok() ? text::Tokenizer::Create(*vocabulary).status() : vocabulary.status();
  Tensors tensors(list);
  for (const GgufTensor& tensor : file->tensors()) {
    const Json shape(std::vector<int64_t>(tensor.dims.begin(), tensor.dims.begin() + tensor.num_dims));
    tensors.Add(tensor.name, model::TraitsOf(tensor.type).name, shape,
                static_cast<uint64_t>(tensor.rows()) * static_cast<uint64_t>(tensor.cols()), tensor.data,
                file->bytes().data());
  }
  const std::string served_not = WhyNotServed(*file, config, tokenizer);
  Json report = Head(path, "gguf", file->bytes().size());
  report["version"] = GgufFile::kVersion;
  report["architecture"] = TextOrNull(*file, "general.architecture");
  report["name"] = TextOrNull(*file, "general.name");
  tensors.AddTo(report);
  AddShape(*file, config, report);
  report["tokenizer"] = vocabulary.ok()
                            ? ReportOnVocabulary(*vocabulary, std::string_view(tokenizer.message().data(),
                                                                               tokenizer.message().size()))
                            : Json();
  report["chat_template"] = vocabulary.ok() ? ReportOnTemplate(*vocabulary) : Json();
  report["metadata"] = Json();
  report["served"] = served_not.empty();
  report["reason"] = served_not.empty() ? Json() : Json(served_not);
  report["tensor_list"] = tensors.listed();
  return report;
}

absl::StatusOr<Json> ReportOnSafeTensors(const std::string& path, bool list) {
  QANAT_ASSIGN_OR_RETURN(const std::unique_ptr<SafeTensorsFile> file, SafeTensorsFile::Open(path));
  Tensors tensors(list);
  for (const SafeTensor& tensor : file->tensors()) {
    uint64_t elements = 1;
    for (const uint64_t dim : tensor.shape) elements *= dim;
    tensors.Add(tensor.name, tensor.type->name, tensor.shape, elements, tensor.data, file->bytes().data());
  }
  Json report = Head(path, "safetensors", file->bytes().size());
  for (const char* key : {"version", "architecture", "name"}) report[key] = Json();
  tensors.AddTo(report);
  for (const char* key :
       {"layers", "hidden_size", "ffn_size", "heads", "kv_heads", "context_length", "head_dim",
        "kv_bytes_per_token", "tied_embeddings", "tokenizer", "chat_template"}) {
    report[key] = Json();
  }
  report["metadata"] = Json::object();
  for (const auto& [key, text] : file->metadata()) report["metadata"][key] = text;
  report["served"] = false;
  report["reason"] = "a safetensors file has weights alone; workers of this build serve GGUF files";
  report["tensor_list"] = tensors.listed();
  return report;
}

}  // namespace

absl::StatusOr<Json> ReportOnModel(const std::string& path, bool tensors) {
  constexpr size_t kHead = 9;  // up to the first character of a safetensors header
  QANAT_ASSIGN_OR_RETURN(const model::MappedFile file, model::MappedFile::Open(path));
  const absl::Span<const std::byte> bytes = file.bytes();
  if (bytes.size() >= 4 && std::memcmp(bytes.data(), "GGUF", 4) == 0) return ReportOnGguf(path, tensors);
  if (bytes.size() >= kHead && bytes[kHead - 1] == std::byte{'{'}) return ReportOnSafeTensors(path, tensors);
  return model::FileError(path, "magic", "neither a GGUF nor a safetensors file");
}

}  // namespace qanat::tools
