#include "common/api/unknown_fields.h"

#include "common/base/error.h"
#include "gtest/gtest.h"
#include "qanat/v1/inference.pb.h"

namespace qanat::api {
namespace {

void AddUnknown(google::protobuf::Message& message, int number) {
  message.GetReflection()->MutableUnknownFields(&message)->AddVarint(number, 1);
}

TEST(UnknownFieldsTest, FindsNoneInAFullRequest) {
  v1::GenerateRequest request;
  request.mutable_chat()->add_messages()->set_content("x");
  (*request.mutable_sampling()->mutable_logit_bias())[3] = 1;
  request.mutable_sampling()->mutable_constraint()->mutable_choices()->add_values("a");
  request.mutable_stopping()->add_stop("x");
  EXPECT_TRUE(CheckNoUnknownFields(request).ok());
}

TEST(UnknownFieldsTest, NamesNumberAndPathAtEveryDepth) {
  v1::GenerateRequest request;
  request.mutable_sampling()->mutable_constraint()->mutable_choices();
  AddUnknown(*request.mutable_sampling()->mutable_constraint()->mutable_choices(), 1234);
  EXPECT_EQ(FieldOf(CheckNoUnknownFields(request)), "sampling.constraint.choices.1234");
  AddUnknown(*request.mutable_sampling(), 77);
  EXPECT_EQ(FieldOf(CheckNoUnknownFields(request)), "sampling.77");
  AddUnknown(request, 50);
  const absl::Status status = CheckNoUnknownFields(request);
  EXPECT_EQ(FieldOf(status), "50");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ReasonOf(status), "FIELD_NOT_HONOURED");
}

TEST(UnknownFieldsTest, FindsWhatCameOverTheWire) {
  v1::StoppingParams sent;
  sent.set_max_tokens(5);
  AddUnknown(sent, 63);
  v1::StoppingParams received;
  ASSERT_TRUE(received.ParseFromString(sent.SerializeAsString()));
  EXPECT_EQ(FieldOf(CheckNoUnknownFields(received)), "63");
}

}  // namespace
}  // namespace qanat::api
