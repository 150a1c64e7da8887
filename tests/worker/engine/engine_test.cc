#include "worker/engine/engine.h"

#include <chrono>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class EngineTest : public testing::Test {
 protected:
  void Start(const EngineOptions& options) { rig_ = std::make_unique<EngineRig>(options); }
  EngineRig& rig() {
    if (rig_ == nullptr) Start(SmallOptions());
    return *rig_;
  }
  EngineSnapshot Snapshot() { return rig().engine->Snapshot(); }
  static Request MakeRequest(int prompt, int max_tokens, TokenId first = 1) {
    return EngineRig::MakeRequest(EngineRig::Prompt(prompt, first), max_tokens);
  }
  static fakes::RecordingSink& SinkOf(const Request& request) { return EngineRig::SinkOf(request); }
  void ExpectIdleAndClean() {
    const EngineSnapshot snapshot = Snapshot();
    EXPECT_EQ(snapshot.running, 0);
    EXPECT_EQ(snapshot.waiting, 0);
    EXPECT_EQ(snapshot.waiting_tokens, 0);
    EXPECT_EQ(snapshot.referenced_blocks, 0);
    EXPECT_EQ(snapshot.live_tokens, 0);
    EXPECT_EQ(snapshot.free_blocks + snapshot.cached_blocks, snapshot.total_blocks);
  }

 private:
  std::unique_ptr<EngineRig> rig_;
};

TEST_F(EngineTest, AnswersARequest) {
  const Request request = MakeRequest(10, 7);
  rig().Submit(request);
  rig().RunAll();
  ASSERT_TRUE(SinkOf(request).ended());
  EXPECT_EQ(SinkOf(request).tokens(), rig().Answer(request));
  const Outcome outcome = SinkOf(request).outcome();
  EXPECT_EQ(outcome.reason, EndReason::kLength);
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.prompt_tokens, 10);
  EXPECT_EQ(outcome.completion_tokens, 7);
  ExpectIdleAndClean();
}

}  // namespace
}  // namespace qanat::engine
