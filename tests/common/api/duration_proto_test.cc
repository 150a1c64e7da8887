#include "common/api/duration_proto.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace qanat::api {
namespace {

TEST(DurationProtoTest, GoesThereAndBack) {
  for (const int64_t ns : {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{999'999'999}, int64_t{1'000'000'000},
                           int64_t{-1'500'000'000}, int64_t{86'400'000'000'001}}) {
    EXPECT_EQ(FromProto(ToProto(Duration(ns))), Duration(ns)) << ns;
  }
}

TEST(DurationProtoTest, ClampsWhatDoesNotFit) {
  google::protobuf::Duration huge;
  huge.set_seconds(std::numeric_limits<int64_t>::max());
  huge.set_nanos(std::numeric_limits<int32_t>::max());
  EXPECT_GT(FromProto(huge), std::chrono::hours(24 * 365 * 290));
  huge.set_seconds(std::numeric_limits<int64_t>::min());
  huge.set_nanos(std::numeric_limits<int32_t>::min());
  EXPECT_LT(FromProto(huge), -std::chrono::hours(24 * 365 * 290));
}

}  // namespace
}  // namespace qanat::api
