#include "common/rpc/status.h"

#include <chrono>
#include <string>

#include "common/base/error.h"
#include "gtest/gtest.h"
#include "qanat/rpc/v1/error_details.pb.h"

namespace qanat::rpc {
namespace {

TEST(StatusTest, OkIsOk) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

TEST(StatusTest, EveryCodeGoesThereAndBack) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "internal error");
    EXPECT_EQ(ToGrpc(status).error_code(), code);
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
}

TEST(StatusTest, CarriesEverythingAttached) {
  const absl::Status status = WithRetryAfter(
      WithReason(WithField(absl::ResourceExhaustedError("queue full"), "prompt"), "QUEUE_FULL"),
      std::chrono::milliseconds(1250));
  EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  EXPECT_EQ(FromGrpc(ToGrpc(InvalidField("sampling.top_p", "bad"))), InvalidField("sampling.top_p", "bad"));
}

// Written out byte by byte from google/rpc/{status,error_details}.proto, so that our copies stay compatible.
TEST(StatusTest, IsWhatEveryClientOfGrpcReads) {
  const grpc::Status status = ToGrpc(WithReason(absl::UnavailableError("no"), "DRAINING"));
  const std::string info =
      "\x0a\x08"
      "DRAINING"
      "\x12\x05"
      "qanat";
  const std::string url = "type.googleapis.com/google.rpc.ErrorInfo";
  const std::string any = std::string("\x0a") + static_cast<char>(url.size()) + url + "\x12" +
                          static_cast<char>(info.size()) + info;
  EXPECT_EQ(status.error_details(),
            std::string("\x08\x0e\x12\x02no\x1a") + static_cast<char>(any.size()) + any);
  EXPECT_EQ(status.error_message(), "no");
}

TEST(StatusTest, NeverTellsWhatWentWrongInside) {
  for (const auto& status : {absl::InternalError("/some/path"), absl::UnknownError("10.1.2.3:80"),
                             absl::DataLossError("prompt text")}) {
    const grpc::Status shown = ToGrpc(WithReason(status, "BROKEN"));
    EXPECT_EQ(shown.error_message(), "internal error");
    EXPECT_EQ(ReasonOf(FromGrpc(shown)), "BROKEN");
    EXPECT_EQ(shown.error_details().find(std::string(status.message())), std::string::npos);
  }
}

TEST(StatusTest, LeavesOutDetailsOfOthersAndRubbish) {
  v1::ErrorInfo info;
  info.set_reason("RATE_LIMIT");
  info.set_domain("googleapis.com");
  v1::Status details;
  google::protobuf::Any& any = *details.add_details();
  any.set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  any.set_value(info.SerializeAsString());
  google::protobuf::Any& rubbish = *details.add_details();
  rubbish.set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  rubbish.set_value("\xff\xff");
  const absl::Status status =
      FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "x", details.SerializeAsString()));
  EXPECT_EQ(status, absl::UnavailableError("x"));
  EXPECT_EQ(FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "x", "\xff\xff\xff")),
            absl::UnavailableError("x"));
}

TEST(StatusTest, BoundsARetryHint) {
  v1::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(INT64_MAX);
  v1::Status details;
  google::protobuf::Any& any = *details.add_details();
  any.set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  any.set_value(retry.SerializeAsString());
  const auto after =
      RetryAfterOf(FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "x", details.SerializeAsString())));
  ASSERT_TRUE(after.has_value());
  EXPECT_EQ(*after, std::chrono::hours(24));
}

}  // namespace
}  // namespace qanat::rpc
