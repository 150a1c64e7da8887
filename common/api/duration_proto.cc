#include "common/api/duration_proto.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace qanat::api {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;
// One second below the limit leaves room for the nanos.
constexpr int64_t kMaxSeconds = std::numeric_limits<int64_t>::max() / kNanosPerSecond - 1;

}  // namespace

google::protobuf::Duration ToProto(Duration duration) {
  google::protobuf::Duration proto;
  proto.set_seconds(duration.count() / kNanosPerSecond);
  proto.set_nanos(static_cast<int32_t>(duration.count() % kNanosPerSecond));
  return proto;
}

Duration FromProto(const google::protobuf::Duration& duration) {
  const int64_t seconds = std::clamp(duration.seconds(), -kMaxSeconds, kMaxSeconds);
  const int64_t nanos = std::clamp<int64_t>(duration.nanos(), -(kNanosPerSecond - 1), kNanosPerSecond - 1);
  return Duration(seconds * kNanosPerSecond + nanos);
}

}  // namespace qanat::api
