#include "worker/model/model_config.h"

#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "worker/model/weights/gguf_types.h"

namespace qanat::model {
namespace {

// No model comes near: they keep products of sizes inside 64 bits and tables inside memory.
constexpr uint32_t kMaxLayers = 1024;
constexpr uint32_t kMaxHeads = 1024;
constexpr uint32_t kMaxHeadDim = 1024;
constexpr uint32_t kMaxWidth = 1 << 20;
constexpr uint32_t kMaxContext = 1 << 24;

absl::Status NotHonoured(const GgufFile& file, std::string_view subject, std::string_view reason) {
  const absl::Status error = file.Error(subject, reason);
  return WithField(absl::UnimplementedError(error.message()), FieldOf(error));
}

// Reads "<architecture>.<name>".
class Keys {
 public:
  Keys(const GgufFile& file, std::string_view architecture) : file_(file), prefix_(architecture) {
    prefix_ += '.';
  }

  std::string Name(std::string_view name) const { return prefix_ + std::string(name); }

  // A size in [1, max].
  absl::StatusOr<int> Size(std::string_view name, uint32_t max) const {
    QANAT_ASSIGN_OR_RETURN(const uint32_t value, file_.GetU32(Name(name)));
    return Checked(name, value, max);
  }
  absl::StatusOr<int> SizeOr(std::string_view name, uint32_t max, int otherwise) const {
    QANAT_ASSIGN_OR_RETURN(const uint32_t value, file_.GetU32Or(Name(name), otherwise));
    return Checked(name, value, max);
  }

  // A number in [min, max].
  absl::StatusOr<float> NumberOr(std::string_view name, float min, float max, float otherwise) const {
    QANAT_ASSIGN_OR_RETURN(const float value, file_.GetF32Or(Name(name), otherwise));
    if (value >= min && value <= max) return value;
    return file_.Error(Name(name), absl::StrCat("must be between ", min, " and ", max, ", got ", value));
  }

  // Refuses a key that is there with another value than the one that changes nothing.
  absl::Status RefuseU32(std::string_view name, uint32_t neutral) const {
    QANAT_ASSIGN_OR_RETURN(const uint32_t value, file_.GetU32Or(Name(name), neutral));
    if (value == neutral) return absl::OkStatus();
    return NotHonoured(file_, Name(name), absl::StrCat(value, " is not supported"));
  }
  absl::Status RefuseF32(std::string_view name, float neutral) const {
    QANAT_ASSIGN_OR_RETURN(const float value, file_.GetF32Or(Name(name), neutral));
    if (value == neutral) return absl::OkStatus();
    return NotHonoured(file_, Name(name), absl::StrCat(value, " is not supported"));
  }

 private:
  absl::StatusOr<int> Checked(std::string_view name, uint32_t value, uint32_t max) const {
    if (value >= 1 && value <= max) return static_cast<int>(value);
    return file_.Error(Name(name), absl::StrCat("must be between 1 and ", max, ", got ", value));
  }

  const GgufFile& file_;
  std::string prefix_;
};

absl::Status ReadSizes(const GgufFile& file, const Keys& keys, ModelConfig& config) {
  QANAT_ASSIGN_OR_RETURN(config.num_layers, keys.Size("block_count", kMaxLayers));
  QANAT_ASSIGN_OR_RETURN(config.hidden_size, keys.Size("embedding_length", kMaxWidth));
  QANAT_ASSIGN_OR_RETURN(config.ffn_size, keys.Size("feed_forward_length", kMaxWidth));
  QANAT_ASSIGN_OR_RETURN(config.context_length, keys.Size("context_length", kMaxContext));
  QANAT_ASSIGN_OR_RETURN(config.num_heads, keys.Size("attention.head_count", kMaxHeads));
  QANAT_ASSIGN_OR_RETURN(config.num_kv_heads,
                         keys.SizeOr("attention.head_count_kv", kMaxHeads, config.num_heads));
  if (config.num_heads % config.num_kv_heads != 0) {
    return file.Error(keys.Name("attention.head_count_kv"),
                      absl::StrCat(config.num_kv_heads, " does not divide ", config.num_heads, " heads"));
  }
  const int usual_head_dim = config.hidden_size / config.num_heads;
  QANAT_ASSIGN_OR_RETURN(config.head_dim, keys.SizeOr("attention.key_length", kMaxHeadDim, usual_head_dim));
  if (config.head_dim % 2 != 0) {
    return file.Error(keys.Name("attention.key_length"),
                      absl::StrCat("a head of ", config.head_dim, " elements has no pairs to rotate"));
  }
  return keys.RefuseU32("attention.value_length", config.head_dim);
}

absl::Status ReadNumerics(const GgufFile& file, const Keys& keys, ModelConfig& config) {
  constexpr std::string_view kEps = "attention.layer_norm_rms_epsilon";
  QANAT_ASSIGN_OR_RETURN(config.rms_eps, file.GetF32(keys.Name(kEps)));
  if (!(config.rms_eps > 0 && config.rms_eps < 1)) {
    return file.Error(keys.Name(kEps), absl::StrCat("must be in (0, 1), got ", config.rms_eps));
  }
  constexpr std::string_view kBase = "rope.freq_base";
  QANAT_ASSIGN_OR_RETURN(config.rope_base, file.GetF32Or(keys.Name(kBase), 10000.0f));
  if (!(config.rope_base > 1)) {
    return file.Error(keys.Name(kBase), absl::StrCat("must be above 1, got ", config.rope_base));
  }
  return absl::OkStatus();
}

// Files from before rope.scaling.* say rope.scale_linear.
absl::StatusOr<float> ReadScalingFactor(const GgufFile& file, const Keys& keys) {
  constexpr float kMaxFactor = 65536;
  const bool old = file.Has(keys.Name("rope.scale_linear")) && !file.Has(keys.Name("rope.scaling.factor"));
  return keys.NumberOr(old ? "rope.scale_linear" : "rope.scaling.factor", 1, kMaxFactor, 1);
}

absl::Status ReadRopeScaling(const GgufFile& file, const Keys& keys, ModelConfig& config) {
  constexpr std::string_view kType = "rope.scaling.type";
  RopeScaling& scaling = config.rope_scaling;
  QANAT_ASSIGN_OR_RETURN(const std::string_view type, file.GetStringOr(keys.Name(kType), "linear"));
  QANAT_ASSIGN_OR_RETURN(scaling.factor, ReadScalingFactor(file, keys));
  if (type == "yarn") {
    scaling.kind = RopeScaling::Kind::kYarn;
    QANAT_ASSIGN_OR_RETURN(scaling.original_context, keys.SizeOr("rope.scaling.original_context_length",
                                                                 kMaxContext, config.context_length));
    QANAT_ASSIGN_OR_RETURN(scaling.attention_factor,
                           keys.NumberOr("rope.scaling.attn_factor", 1.0f / 64, 64, 1));
    QANAT_ASSIGN_OR_RETURN(scaling.beta_fast, keys.NumberOr("rope.scaling.yarn_beta_fast", 0.01f, 1e6f, 32));
    QANAT_ASSIGN_OR_RETURN(scaling.beta_slow, keys.NumberOr("rope.scaling.yarn_beta_slow", 0.01f, 1e6f, 1));
    QANAT_RETURN_IF_ERROR(keys.RefuseF32("rope.scaling.yarn_ext_factor", 1));
    return keys.RefuseF32("rope.scaling.yarn_log_multiplier", 0);
  }
  QANAT_RETURN_IF_ERROR(keys.RefuseF32("rope.scaling.attn_factor", 1));
  if (type == "none") return keys.RefuseF32("rope.scaling.factor", 1);
  if (type != "linear") {
    return NotHonoured(file, keys.Name(kType),
                       absl::StrCat("'", std::string(type.substr(0, 64)),
                                    "' is not supported; supported: none, linear, yarn"));
  }
  if (scaling.factor != 1) scaling.kind = RopeScaling::Kind::kLinear;
  return absl::OkStatus();
}

absl::Status ReadWindow(const GgufFile& file, const Keys& keys, const Family& family, ModelConfig& config) {
  constexpr std::string_view kWindow = "attention.sliding_window";
  if (family.window_pattern == 0) return keys.RefuseU32(kWindow, 0);
  QANAT_ASSIGN_OR_RETURN(const uint32_t window, file.GetU32Or(keys.Name(kWindow), 0));
  if (window == 0) return absl::OkStatus();
  QANAT_ASSIGN_OR_RETURN(config.window, keys.Size(kWindow, kMaxContext));
  QANAT_ASSIGN_OR_RETURN(config.window_pattern,
                         keys.SizeOr("attention.sliding_window_pattern", kMaxLayers, family.window_pattern));
  constexpr float kMaxBase = 1e12f;
  QANAT_ASSIGN_OR_RETURN(config.local_rope_base, keys.NumberOr("rope.freq_base_swa", 1.001f, kMaxBase,
                                                               static_cast<float>(family.local_rope_base)));
  return absl::OkStatus();
}

// What the family decides, and what the file may change of it.
absl::Status ReadStyle(const GgufFile& file, const Keys& keys, const Family& family, ModelConfig& config) {
  config.style = family.style;
  constexpr float kMaxScale = 1024;
  QANAT_ASSIGN_OR_RETURN(config.attention_scale, keys.NumberOr("attention.scale", 0, kMaxScale, 0));
  if (config.attention_scale == 0) {
    const bool by_hidden = config.num_layers == family.layers_scaled_by_hidden;
    const int divisor = by_hidden ? config.hidden_size / config.num_heads : config.head_dim;
    config.attention_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(divisor)));
  }
  if (family.scaled_embedding) config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  QANAT_RETURN_IF_ERROR(ReadRopeScaling(file, keys, config));
  return ReadWindow(file, keys, family, config);
}

// What a later version may honour: until then a file that asks for it is refused, never computed wrongly.
absl::Status RefuseUnhonoured(const Keys& keys, const ModelConfig& config) {
  QANAT_RETURN_IF_ERROR(keys.RefuseU32("rope.dimension_count", config.head_dim));
  QANAT_RETURN_IF_ERROR(keys.RefuseF32("attention.clamp_kqv", 0));
  QANAT_RETURN_IF_ERROR(keys.RefuseF32("attention.max_alibi_bias", 0));
  QANAT_RETURN_IF_ERROR(keys.RefuseF32("attn_logit_softcapping", 0));
  QANAT_RETURN_IF_ERROR(keys.RefuseF32("final_logit_softcapping", 0));
  QANAT_RETURN_IF_ERROR(keys.RefuseF32("logit_scale", 1));
  return keys.RefuseU32("expert_count", 0);
}

std::string MostFrequentMatrixType(const GgufFile& file) {
  std::array<int, 256> counts{};
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.rows() > 1) ++counts[static_cast<uint8_t>(tensor.type)];
  }
  int best = 0;
  for (size_t type = 0; type < counts.size(); ++type) {
    if (counts[type] > counts[best]) best = static_cast<int>(type);
  }
  return std::string(TraitsOf(static_cast<backend::DType>(best)).name);
}

}  // namespace

absl::StatusOr<ModelConfig> ReadModelConfig(const GgufFile& file) {
  QANAT_ASSIGN_OR_RETURN(const Family* family, FindFamily(file));
  ModelConfig config;
  config.architecture = family->architecture;
  QANAT_ASSIGN_OR_RETURN(config.name, file.GetStringOr("general.name", ""));
  const Keys keys(file, config.architecture);
  QANAT_RETURN_IF_ERROR(ReadSizes(file, keys, config));
  QANAT_RETURN_IF_ERROR(ReadNumerics(file, keys, config));
  QANAT_RETURN_IF_ERROR(ReadStyle(file, keys, *family, config));
  QANAT_RETURN_IF_ERROR(RefuseUnhonoured(keys, config));
  const GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr) return file.Error("token_embd.weight", "missing tensor");
  if (embedding->rows() > kMaxContext)
    return file.Error("token_embd.weight", "more rows than a vocabulary can have");
  config.vocab_size = static_cast<int>(embedding->rows());
  config.tied_embeddings = file.FindTensor("output.weight") == nullptr;
  config.quantization = MostFrequentMatrixType(file);
  return config;
}

backend::KvConfig KvConfigFor(const ModelConfig& config, int block_size, int num_blocks,
                              backend::KvFormat format) {
  return {.num_layers = config.num_layers,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .block_size = block_size,
          .num_blocks = num_blocks,
          .format = format};
}

}  // namespace qanat::model
