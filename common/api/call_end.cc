#include "common/api/call_end.h"

#include <chrono>
#include <string>

#include "common/api/duration_proto.h"
#include "common/base/error.h"

namespace qanat::api {

cluster::v1::CallEnd ToCallEnd(const absl::Status& status) {
  const absl::Status shown = PublicError(status);
  cluster::v1::CallEnd end;
  end.set_code(static_cast<int>(shown.code()));
  end.set_message(std::string(shown.message()));
  end.set_field(FieldOf(shown));
  end.set_reason(ReasonOf(shown));
  if (const auto after = RetryAfterOf(shown)) *end.mutable_retry_after() = ToProto(*after);
  return end;
}

absl::Status FromCallEnd(const cluster::v1::CallEnd& end) {
  if (end.code() == 0) return absl::OkStatus();
  const bool known = end.code() > 0 && end.code() <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  absl::Status status(known ? static_cast<absl::StatusCode>(end.code()) : absl::StatusCode::kUnknown,
                      end.message());
  if (!end.field().empty()) status = WithField(status, end.field());
  if (!end.reason().empty()) status = WithReason(status, end.reason());
  if (end.has_retry_after()) {
    status = WithRetryAfter(
        status, std::chrono::duration_cast<std::chrono::milliseconds>(FromProto(end.retry_after())));
  }
  return status;
}

}  // namespace qanat::api
