// Sinks that call the engine back.
#include <functional>
#include <memory>

#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

using EngineSinksTest = EngineFixture;

// Runs a function in the callbacks.
class CallingSink final : public TokenSink {
 public:
  std::function<void()> on_tokens = [] {};
  std::function<void()> on_end = [] {};
  void OnTokens(int32_t, absl::Span<const TokenId>, absl::Span<const sampling::ScoredToken>) override {
    on_tokens();
  }
  void OnPromptScores(int32_t, absl::Span<const sampling::ScoredToken>) override {}
  void OnEnd(const Outcome&) override { on_end(); }
};

TEST_F(EngineSinksTest, WhoHearsOfAnEndFindsItInTheSnapshotAndTheMetrics) {
  auto sink = std::make_shared<CallingSink>();
  bool ended = false;
  sink->on_end = [&] {
    ended = true;
    ExpectIdleAndClean();
    EXPECT_EQ(rig().metrics.ends.size(), 1u);
  };
  Request request = MakeRequest(10, 3);
  request.sink = sink;
  rig().Submit(request);
  rig().RunAll();
  EXPECT_TRUE(ended);
}

TEST_F(EngineSinksTest, SinksMaySubmitAndCancel) {
  const Request second = MakeRequest(10, 2, 300);
  SequenceId id{};
  auto sink = std::make_shared<CallingSink>();
  sink->on_tokens = [&] { rig().engine->Cancel(id, EndReason::kStop); };
  sink->on_end = [&] { rig().Submit(second); };
  Request request = MakeRequest(10, 30);
  request.sink = sink;
  id = rig().Submit(request);
  rig().RunAll();
  EXPECT_EQ(rig().metrics.ends.front().first.completion_tokens, 1);
  EXPECT_EQ(SinkOf(second).tokens(), rig().Answer(second));
}

}  // namespace
}  // namespace qanat::engine
