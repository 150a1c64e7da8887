#include "worker/engine/door.h"

#include <chrono>
#include <thread>
#include <vector>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DoorTest : public testing::Test {
 protected:
  absl::Status Enter(int prompt, int max_tokens) {
    return door().Enter(EngineRig::MakeRequest(EngineRig::Prompt(prompt), max_tokens), kNow);
  }
  static CountByPriority Standard(int32_t count) { return {0, count, 0}; }
  Door& door() {
    if (door_ == nullptr) door_ = std::make_unique<Door>(options_, drain_);
    return *door_;
  }

  static constexpr Time kNow{std::chrono::hours(1)};
  EngineOptions options_ = SmallOptions();  // 64 blocks of 4, context 256
  DrainEstimate drain_;

 private:
  std::unique_ptr<Door> door_;
};

TEST_F(DoorTest, CountsWhoCameInUntilTheyLeave) {
  ASSERT_TRUE(Enter(10, 5).ok());
  ASSERT_TRUE(Enter(20, 5).ok());
  EXPECT_EQ(door().requests(), 2);
  EXPECT_EQ(door().tokens(), 30);
  door().Leave(Standard(2), 30);
  EXPECT_EQ(door().requests(), 0);
  EXPECT_EQ(door().tokens(), 0);
}

TEST_F(DoorTest, RefusesAnEmptyPrompt) {
  const absl::Status status = Enter(0, 5);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "prompt");
}

TEST_F(DoorTest, RefusesAPromptOfTheContextOrMoreWithBothNumbers) {
  EXPECT_TRUE(Enter(255, 5).ok());
  for (const int prompt : {256, 257}) {
    const absl::Status status = Enter(prompt, 5);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(std::to_string(prompt)), HasSubstr("256 ")));
  }
}

TEST_F(DoorTest, RefusesMaxTokensBelowOne) {
  for (const int max_tokens : {0, -1}) {
    const absl::Status status = Enter(10, max_tokens);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(FieldOf(status), "stopping.max_tokens");
  }
}

TEST_F(DoorTest, RefusesWhatCanNeverFitWithBothNumbers) {
  options_.num_blocks = 20;
  EXPECT_TRUE(Enter(40, 40).ok());
  const absl::Status status = Enter(40, 41);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), "NEVER_FITS");
  EXPECT_EQ(FieldOf(status), "stopping.max_tokens");
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("21 blocks"), HasSubstr("20")));
}

TEST_F(DoorTest, ClipsToTheContextBeforeItAsksWhatFits) {
  options_.num_blocks = 64;
  EXPECT_TRUE(Enter(200, 2147483647).ok());
}

TEST_F(DoorTest, RefusesADeadlineThatHasPassed) {
  Request request = EngineRig::MakeRequest(EngineRig::Prompt(4), 4);
  request.deadline = kNow;
  const absl::Status status = door().Enter(request, kNow);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReasonOf(status), "DEADLINE");
  EXPECT_EQ(door().requests(), 0);
}

TEST_F(DoorTest, RefusesWhenTheQueueIsFullOfRequests) {
  options_.queue_requests = 2;
  ASSERT_TRUE(Enter(1, 1).ok());
  ASSERT_TRUE(Enter(1, 1).ok());
  const absl::Status status = Enter(1, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(status), "QUEUE_FULL");
  EXPECT_TRUE(RetryAfterOf(status).has_value());
  door().Leave(Standard(1), 1);
  EXPECT_TRUE(Enter(1, 1).ok());
}

TEST_F(DoorTest, RefusesWhenTheQueueIsFullOfTokens) {
  options_.queue_tokens = 256;
  ASSERT_TRUE(Enter(200, 1).ok());
  const absl::Status status = Enter(57, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(status), "TOKENS_FULL");
  EXPECT_TRUE(RetryAfterOf(status).has_value());
  EXPECT_EQ(door().requests(), 1) << "a refusal reserves nothing";
  EXPECT_TRUE(Enter(56, 1).ok());
}

TEST_F(DoorTest, RefusesEverybodyOnceClosed) {
  door().Close();
  const absl::Status status = Enter(1, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(status), "DRAINING");
}

TEST_F(DoorTest, BoundsHoldWhenManyEnterAtOnce) {
  options_.queue_requests = 100;
  options_.queue_tokens = 256;
  door();
  std::atomic<int64_t> accepted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, &accepted] {
      for (int i = 0; i < 2000; ++i) {
        const int prompt = 1 + i % 7;
        if (!Enter(prompt, 1).ok()) continue;
        accepted.fetch_add(1);
        ASSERT_LE(door().requests(), 100);
        ASSERT_LE(door().tokens(), 256);
        door().Leave(Standard(1), prompt);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(accepted.load(), 0);
  EXPECT_EQ(door().requests(), 0);
  EXPECT_EQ(door().tokens(), 0);
}

TEST_F(DoorTest, RefusesADeadlineThatTheQueueAndTheAnswerWillNotLeaveTimeFor) {
  for (int i = 0; i < 100; ++i) {
    drain_.OnStep(std::chrono::milliseconds(10), 1, 5);
    drain_.OnEnd(std::chrono::milliseconds(4), std::chrono::milliseconds(196), 50);
  }
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Enter(10, 5).ok());
  // 100 ms in the queue, and 200 of its own.
  Request request = EngineRig::MakeRequest(EngineRig::Prompt(4), 100);
  request.deadline = kNow + std::chrono::milliseconds(290);
  const absl::Status status = door().Enter(request, kNow);
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_EQ(ReasonOf(status), "DEADLINE");
  EXPECT_EQ(door().requests(), 10) << "it holds no place";
  request.deadline = kNow + std::chrono::milliseconds(310);
  EXPECT_TRUE(door().Enter(request, kNow).ok());
  request.max_tokens = 5;
  request.deadline = kNow + std::chrono::milliseconds(140);
  EXPECT_TRUE(door().Enter(request, kNow).ok()) << "a short answer takes less";
}

TEST_F(DoorTest, ADeadlineIsJudgedByThoseBeforeItAndNotByWhomItOvertakes) {
  for (int i = 0; i < 100; ++i) drain_.OnStep(std::chrono::milliseconds(100), 1, 5);
  const auto enter = [&](Priority priority) {
    Request request = EngineRig::MakeRequest(EngineRig::Prompt(4), 4);
    request.priority = priority;
    request.deadline = kNow + std::chrono::seconds(1);
    return door().Enter(request, kNow);
  };
  for (int i = 0; i < 40; ++i) {
    Request batch = EngineRig::MakeRequest(EngineRig::Prompt(4), 4);
    batch.priority = Priority::kBatch;
    ASSERT_TRUE(door().Enter(batch, kNow).ok());
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(enter(Priority::kBatch)));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(enter(Priority::kInteractive).ok()) << i << " before it";
  ASSERT_TRUE(enter(Priority::kStandard).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(enter(Priority::kStandard))) << "all of these go before it";
  door().Leave({5, 0, 0}, 20);
  EXPECT_TRUE(enter(Priority::kStandard).ok());
}

TEST_F(DoorTest, TheHintIsWhenHalfTheQueueHasStarted) {
  for (int i = 0; i < 100; ++i) drain_.OnStep(std::chrono::milliseconds(50), 1, 5);
  options_.queue_requests = 20;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Enter(10, 5).ok());
  EXPECT_NEAR(static_cast<double>(RetryAfterOf(Enter(10, 5))->count()), 500, 5);
}

}  // namespace
}  // namespace qanat::engine
