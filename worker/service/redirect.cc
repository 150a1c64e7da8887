#include "worker/service/redirect.h"

#include <string>

#include "common/base/error.h"

namespace qanat::service {

cluster::v1::Redirect RedirectOf(const absl::Status& refusal) {
  const std::string reason = ReasonOf(refusal);
  if (reason == "QUEUE_FULL" || reason == "TOKENS_FULL") return cluster::v1::REDIRECT_FULL;
  if (reason == "DRAINING") return cluster::v1::REDIRECT_DRAINING;
  return cluster::v1::REDIRECT_UNSPECIFIED;
}

}  // namespace qanat::service
