#include "worker/model/registry.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "worker/model/llama.h"

namespace qanat::model {
namespace {

constexpr Family kFamilies[] = {
    {"llama", &CreateLlama},
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
