// n choices in one call.
#include <string>

#include "gtest/gtest.h"
#include "tests/worker/service/generate_fixture.h"

namespace qanat::service {
namespace {

using GenerateChoicesTest = GenerateFixture;

TEST_F(GenerateChoicesTest, ChoicesHaveTheirOwnTextAndEndAndOneStatus) {
  Script("first");
  for (uint32_t choice = 1; choice < 4; ++choice) {
    runner_.SetScript(kSeed, Bytes(std::string(choice, 'a') + "bcdef"), choice);
  }
  for (const auto delivery : {v1::DELIVERY_DELTAS, v1::DELIVERY_FINAL_ONLY}) {
    v1::GenerateRequest request = Request(8);
    request.mutable_sampling()->set_n(4);
    request.mutable_stopping()->add_stop("cd");
    request.mutable_output()->set_delivery(delivery);
    const Heard heard = Generate(request);
    ASSERT_TRUE(heard.status.ok()) << heard.status;
    EXPECT_EQ(heard.text(0), "first");
    for (int choice = 1; choice < 4; ++choice) {
      EXPECT_EQ(heard.text(choice), std::string(choice, 'a') + "b");
      EXPECT_EQ(heard.finish(choice).stop(), "cd");
    }
    EXPECT_EQ(heard.last().usage().prompt_tokens(), 6) << "once";
    EXPECT_EQ(heard.last().usage().completion_tokens(), 6 + 4 + 5 + 6);
    if (delivery == v1::DELIVERY_FINAL_ONLY) {
      EXPECT_EQ(heard.messages.size(), 4u);
    }
  }
  EXPECT_TRUE(worker_->WaitUntilIdle());
}

TEST_F(GenerateChoicesTest, TheFirstChoiceIsTheAnswerWithoutOthers) {
  Script("the one");
  const Heard alone = Generate(Request());
  v1::GenerateRequest request = Request();
  request.mutable_sampling()->set_n(2);
  request.mutable_stopping()->set_max_tokens(20);
  EXPECT_EQ(Generate(request).text(0), alone.text());
}

TEST_F(GenerateChoicesTest, AChoiceThatFailsEndsTheCallAndTheOthers) {
  runner_.FailAt(kSeed, 3);  // of any choice
  v1::GenerateRequest request = Request(200);
  request.mutable_sampling()->set_n(3);
  const Heard heard = Generate(request);
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(heard.finish(0).reason(), v1::FINISH_REASON_ERROR);
  EXPECT_TRUE(heard.last().has_usage());
  EXPECT_TRUE(worker_->WaitUntilIdle());
}

TEST_F(GenerateChoicesTest, CancellingEndsEveryChoice) {
  for (const int steps : {0, 1, 5}) {
    runner_.Allow(steps);
    grpc::ClientContext context;
    v1::GenerateRequest request = Request();
    request.mutable_sampling()->set_n(5);
    const auto reader = stub_->Generate(&context, request);
    runner_.WaitUntilHeld();
    context.TryCancel();
    EXPECT_EQ(ReadAll(*reader).status.code(), absl::StatusCode::kCancelled);
    ExpectAllEnds();
  }
}

}  // namespace
}  // namespace qanat::service
