// How calls end before their answer does: cancelled, too late, failed, drained.
#include <chrono>
#include <string>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/service/captured_log.h"
#include "tests/worker/service/generate_fixture.h"
#include "worker/service/generation.h"

namespace qanat::service {
namespace {

using GenerateEndsTest = GenerateFixture;

TEST_F(GenerateEndsTest, CancellingEndsTheWorkInAnyState) {
  for (const int steps : {0, 1, 3}) {
    runner_.Allow(steps);
    grpc::ClientContext context;
    const auto reader = stub_->Generate(&context, Request());
    v1::GenerateResponse message;
    if (steps > 0) {
      ASSERT_TRUE(reader->Read(&message));
    }
    runner_.WaitUntilHeld();
    context.TryCancel();
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
    ExpectAllEnds();
  }
}

TEST_F(GenerateEndsTest, TheDeadlineOfTheCallIsTheRequests) {
  runner_.Allow(1);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  const Heard heard = Generate(Request(), context);
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kDeadlineExceeded);
  ExpectAllEnds();
}

TEST_F(GenerateEndsTest, ADeadlineInTheQueueEndsTheCall) {
  FixtureOptions options;
  options.max_seqs = 1;
  Start(options);
  runner_.Allow(0);
  grpc::ClientContext running_context;
  const auto running = stub_->Generate(&running_context, Request(2));
  runner_.WaitUntilHeld();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  EXPECT_EQ(Generate(Request(), context).status.code(), absl::StatusCode::kDeadlineExceeded);
  runner_.Allow(-1);
  EXPECT_TRUE(ReadAll(*running).status.ok());
  EXPECT_TRUE(worker_->WaitUntilIdle());
}

TEST_F(GenerateEndsTest, ARowThatFailsIsInternalAndTellsNothing) {
  Script("abc");
  runner_.FailAt(kSeed, 2);
  const Heard heard = Generate(Request());
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(heard.status.message(), "internal error");
  ASSERT_FALSE(heard.messages.empty());
  EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_ERROR);
  EXPECT_EQ(heard.text(), "ab");
}

TEST_F(GenerateEndsTest, ADrainingWorkerRefusesAndFinishesWhatRuns) {
  Script("abc");
  runner_.Allow(1);
  grpc::ClientContext context;
  const auto running = stub_->Generate(&context, Request());
  v1::GenerateResponse message;
  ASSERT_TRUE(running->Read(&message));
  worker_->engine().Drain();
  const Heard refused = Generate(Request());
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused.status), "DRAINING");
  runner_.Allow(-1);
  const Heard rest = ReadAll(*running);
  EXPECT_TRUE(rest.status.ok()) << rest.status;
  EXPECT_EQ(message.text() + rest.text(), "abc");
}

TEST_F(GenerateEndsTest, ARefusalLeavesALineInTheLog) {
  const CapturedLog log;
  v1::GenerateRequest request = Request();
  request.set_request_id("mine");
  request.mutable_sampling()->set_top_p(1.5);
  EXPECT_EQ(Generate(request).status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(log.lines(), ::testing::HasSubstr("request not accepted request_id=mine code=INVALID_ARGUMENT "
                                                "reason=INVALID_FIELD field=sampling.top_p"));
}

TEST_F(GenerateEndsTest, WhatIsLeftAtTheDrainLimitMayGoOnElsewhere) {
  Script("abDEFGHI");
  runner_.Allow(4);
  v1::GenerateRequest request = Request();
  request.mutable_stopping()->add_stop("DEFGH!");
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  runner_.WaitUntilHeld();
  worker_->engine().Drain();
  const RealClock clock;
  EXPECT_FALSE(worker_->live().WaitUntilEmpty(std::chrono::milliseconds(1), clock));
  worker_->live().ForEach([](Generation& generation) {
    generation.Abort(engine::EndReason::kError, WithReason(absl::UnavailableError("leaving"), "DRAINING"));
  });
  runner_.Allow(-1);
  const Heard heard = ReadAll(*reader);
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(heard.status), "DRAINING");
  EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_ERROR);
  EXPECT_EQ(heard.text(), "ab") << "what may become a stop is for the next worker to say";
  EXPECT_TRUE(worker_->WaitUntilIdle());
}

}  // namespace
}  // namespace qanat::service
