#include "common/rpc/status.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "qanat/rpc/v1/error_details.pb.h"

namespace qanat::rpc {
namespace {

constexpr char kTypePrefix[] = "type.googleapis.com/google.rpc.";
constexpr char kDomain[] = "qanat";
// A peer's hint beyond a day is no hint.
constexpr int64_t kMaxRetrySeconds = 86400;

void Attach(const google::protobuf::Message& detail, v1::Status& out) {
  google::protobuf::Any& any = *out.add_details();
  any.set_type_url(absl::StrCat(kTypePrefix, detail.GetDescriptor()->name()));
  detail.SerializeToString(any.mutable_value());
}

template <typename Detail>
bool Read(const google::protobuf::Any& any, Detail& detail) {
  return any.type_url() == absl::StrCat(kTypePrefix, Detail::descriptor()->name()) &&
         detail.ParseFromString(any.value());
}

void AttachDetails(const absl::Status& status, v1::Status& out) {
  if (const std::string field = FieldOf(status); !field.empty()) {
    v1::BadRequest detail;
    v1::FieldViolation& violation = *detail.add_field_violations();
    violation.set_field(field);
    violation.set_description(out.message());
    Attach(detail, out);
  }
  if (const std::string reason = ReasonOf(status); !reason.empty()) {
    v1::ErrorInfo detail;
    detail.set_reason(reason);
    detail.set_domain(kDomain);
    Attach(detail, out);
  }
  if (const auto after = RetryAfterOf(status)) {
    v1::RetryInfo detail;
    detail.mutable_retry_delay()->set_seconds(after->count() / 1000);
    detail.mutable_retry_delay()->set_nanos(static_cast<int32_t>(after->count() % 1000 * 1'000'000));
    Attach(detail, out);
  }
}

absl::Status ReadDetail(const google::protobuf::Any& any, absl::Status status) {
  v1::BadRequest bad;
  v1::ErrorInfo info;
  v1::RetryInfo retry;
  if (Read(any, bad) && !bad.field_violations().empty()) {
    return WithField(std::move(status), bad.field_violations(0).field());
  }
  if (Read(any, info) && info.domain() == kDomain) return WithReason(std::move(status), info.reason());
  if (Read(any, retry)) {
    const int64_t seconds = std::clamp<int64_t>(retry.retry_delay().seconds(), 0, kMaxRetrySeconds);
    const int64_t nanos = std::clamp<int64_t>(retry.retry_delay().nanos(), 0, 999'999'999);
    return WithRetryAfter(std::move(status), std::chrono::milliseconds(seconds * 1000 + nanos / 1'000'000));
  }
  return status;
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const absl::Status shown = PublicError(status);
  v1::Status details;
  details.set_code(static_cast<int>(shown.code()));
  details.set_message(std::string(shown.message()));
  AttachDetails(shown, details);
  const std::string bytes = details.details().empty() ? std::string() : details.SerializeAsString();
  return grpc::Status(static_cast<grpc::StatusCode>(shown.code()), details.message(), bytes);
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const int code = status.error_code();
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  absl::Status out(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                   status.error_message());
  v1::Status details;
  if (!details.ParseFromString(status.error_details())) return out;
  for (const google::protobuf::Any& any : details.details()) out = ReadDetail(any, std::move(out));
  return out;
}

}  // namespace qanat::rpc
