// A15: the caller's id is a label: two calls may share it, a long one is refused, and it is no key of
// anything.
#include <string>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/service/generate_fixture.h"

namespace qanat::service {
namespace {

using A15CallersIdTest = GenerateFixture;

TEST_F(A15CallersIdTest, TwoCallsWithOneIdGetTheirOwnAnswers) {
  runner_.SetScript(1, Bytes("first"));
  runner_.SetScript(2, Bytes("other"));
  runner_.Allow(0);
  std::vector<grpc::ClientContext> contexts(2);
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>> readers;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    v1::GenerateRequest request = Request(5);
    request.set_request_id("the same");
    request.mutable_sampling()->set_seed(seed);
    readers.push_back(stub_->Generate(&contexts[seed - 1], request));
  }
  runner_.Allow(-1);
  std::string texts[2];
  for (size_t i = 0; i < 2; ++i) {
    for (v1::GenerateResponse message; readers[i]->Read(&message);) {
      EXPECT_EQ(message.request_id(), "the same");
      texts[i] += message.text();
    }
    EXPECT_TRUE(readers[i]->Finish().ok());
  }
  EXPECT_EQ(texts[0], "first");
  EXPECT_EQ(texts[1], "other");
  EXPECT_TRUE(worker_->WaitUntilIdle());
  EXPECT_THAT(worker_->Metrics(), testing::HasSubstr("qanat_worker_requests_running{model=\"tiny\"} 0\n"));
}

TEST_F(A15CallersIdTest, ALongIdIsRefused) {
  for (const size_t bytes : {size_t{257}, size_t{1} << 20}) {
    v1::GenerateRequest request = Request(1);
    request.set_request_id(std::string(bytes, 'i'));
    EXPECT_EQ(FieldOf(Generate(request).status), "request_id");
  }
}

}  // namespace
}  // namespace qanat::service
