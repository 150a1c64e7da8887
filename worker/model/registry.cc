#include "worker/model/registry.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace qanat::model {
namespace {

using backend::RopeStyle;

constexpr Family kFamilies[] = {
    {.architecture = "llama", .style = {}},  // also Mistral, SmolLM2 and others
    {.architecture = "qwen2", .style = {.rope = RopeStyle::kHalves, .qkv_bias = true}},
    {.architecture = "qwen3", .style = {.rope = RopeStyle::kHalves, .qk_norm = true}},
    {.architecture = "gemma3",
     .style =
         {.rope = RopeStyle::kHalves, .qk_norm = true, .post_norms = true, .activation = Activation::kGelu},
     .scaled_embedding = true,
     .window_pattern = 6,
     .local_rope_base = 10000,
     .layers_scaled_by_hidden = 62},  // Gemma 3 27B: 168, heads being 128 wide
};

}  // namespace

absl::StatusOr<const Family*> FindFamily(const GgufFile& file) {
  constexpr std::string_view kKey = "general.architecture";
  QANAT_ASSIGN_OR_RETURN(const std::string_view architecture, file.GetString(kKey));
  std::string known;
  for (const Family& family : kFamilies) {
    if (family.architecture == architecture) return &family;
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(family.architecture));
  }
  const absl::Status error = file.Error(kKey, absl::StrCat("'", std::string(architecture.substr(0, 64)),
                                                           "' is not supported; supported: ", known));
  return WithField(absl::UnimplementedError(error.message()), kKey);
}

}  // namespace qanat::model
