#include "common/api/call_end.h"

#include <chrono>
#include <string>

#include "common/base/error.h"
#include "gtest/gtest.h"

namespace qanat::api {
namespace {

TEST(CallEndTest, CarriesCodeMessageAndEverythingAttached) {
  const absl::Status status = WithRetryAfter(
      WithReason(WithField(absl::ResourceExhaustedError("queue full"), "prompt"), "QUEUE_FULL"),
      std::chrono::milliseconds(1250));
  EXPECT_EQ(FromCallEnd(ToCallEnd(status)), status);
}

TEST(CallEndTest, CarriesEveryCode) {
  for (int code = 0; code <= 16; ++code) {
    cluster::v1::CallEnd end;
    end.set_code(code);
    EXPECT_EQ(static_cast<int>(FromCallEnd(end).code()), code);
    EXPECT_EQ(ToCallEnd(absl::Status(static_cast<absl::StatusCode>(code), "")).code(), code);
  }
}

TEST(CallEndTest, TurnsAnUnknownCodeIntoUnknown) {
  for (const int code : {-1, 17, 20000}) {
    cluster::v1::CallEnd end;
    end.set_code(code);
    EXPECT_EQ(FromCallEnd(end).code(), absl::StatusCode::kUnknown) << code;
  }
}

TEST(CallEndTest, NeverTellsWhatWentWrongInside) {
  const auto end =
      ToCallEnd(WithReason(absl::InternalError("/some/path: prompt was 'secret'"), "NON_FINITE_LOGITS"));
  EXPECT_EQ(end.message(), "internal error");
  EXPECT_EQ(end.reason(), "NON_FINITE_LOGITS");
}

}  // namespace
}  // namespace qanat::api
