// A10: parameters out of range or not finite are refused by name before they reach the queue, and who is
// being served meanwhile notices nothing.
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "gtest/gtest.h"
#include "tests/worker/service/generate_fixture.h"

namespace qanat::service {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Bad {
  const char* field;
  std::function<void(v1::SamplingParams&)> set;
};

std::vector<Bad> BadParameters() {
  using S = v1::SamplingParams;
  std::vector<Bad> bad;
  const auto add = [&](const char* field, void (S::*set)(float), std::vector<float> values) {
    for (const float value : values) bad.push_back({field, [=](S& s) { (s.*set)(value); }});
  };
  add("sampling.temperature", &S::set_temperature, {kNan, kInfinity, -1, -1e-30f});
  add("sampling.top_p", &S::set_top_p, {0, 1.5f, kNan});
  add("sampling.min_p", &S::set_min_p, {-1, kNan});
  add("sampling.presence_penalty", &S::set_presence_penalty, {1e38f, -kInfinity, kNan});
  add("sampling.frequency_penalty", &S::set_frequency_penalty, {1e38f, kNan});
  add("sampling.repetition_penalty", &S::set_repetition_penalty, {1e38f, 0, -1, kNan});
  for (const int n : {0, -1, 17}) bad.push_back({"sampling.n", [n](S& s) { s.set_n(n); }});
  for (const int id : {1 << 20, -1}) {
    bad.push_back({"sampling.logit_bias", [id](S& s) { (*s.mutable_logit_bias())[id] = 1; }});
  }
  for (const float bias : {kNan, kInfinity, 100.5f}) {
    bad.push_back({"sampling.logit_bias", [bias](S& s) { (*s.mutable_logit_bias())[3] = bias; }});
  }
  return bad;
}

using A10BadParametersTest = GenerateFixture;

TEST_F(A10BadParametersTest, AreRefusedByNameBesideAGoodRequest) {
  Script("undisturbed");
  runner_.Allow(2);
  grpc::ClientContext context;
  const auto good = stub_->Generate(&context, Request());
  runner_.WaitUntilHeld();
  for (const Bad& bad : BadParameters()) {
    v1::GenerateRequest request = Request(3);
    bad.set(*request.mutable_sampling());
    const Heard heard = Generate(request);
    EXPECT_EQ(heard.status.code(), absl::StatusCode::kInvalidArgument) << bad.field;
    EXPECT_EQ(FieldOf(heard.status), bad.field);
    EXPECT_TRUE(heard.messages.empty());
  }
  EXPECT_EQ(worker_->engine().Snapshot().waiting, 0);
  runner_.Allow(-1);
  std::string text;
  for (v1::GenerateResponse message; good->Read(&message);) text += message.text();
  EXPECT_TRUE(good->Finish().ok());
  EXPECT_EQ(text, "undisturbed");
}

TEST_F(A10BadParametersTest, ATinyTemperatureIsGreedy) {
  v1::GenerateRequest request = Request(3);
  request.mutable_sampling()->set_temperature(1e-30f);
  EXPECT_TRUE(Generate(request).status.ok());
}

}  // namespace
}  // namespace qanat::service
