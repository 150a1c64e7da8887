// What a snapshot shows and what the listener hears.
#include <chrono>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

using std::chrono::microseconds;

using EngineSnapshotTest = EngineFixture;

TEST_F(EngineSnapshotTest, TheSnapshotShowsWhoWaitsAndWhatIsHeld) {
  StartWithOneSeat();
  rig().Submit(MakeRequest(10, 7));
  rig().Submit(MakeRequest(20, 7, 300));
  EXPECT_EQ(Snapshot().waiting, 2);
  EXPECT_EQ(Snapshot().waiting_tokens, 30);
  rig().Step();
  const EngineSnapshot snapshot = Snapshot();
  EXPECT_EQ(snapshot.running, 1);
  EXPECT_EQ(snapshot.waiting, 1);
  EXPECT_EQ(snapshot.waiting_tokens, 20);
  EXPECT_EQ(snapshot.referenced_blocks, 3);
  EXPECT_EQ(snapshot.live_tokens, 10);
  EXPECT_EQ(snapshot.free_blocks, 61);
  EXPECT_EQ(snapshot.cached_blocks, 0);
  EXPECT_EQ(snapshot.steps, 1u);
  rig().RunAll();
  EXPECT_GT(Snapshot().cached_blocks, 0);
}

TEST_F(EngineSnapshotTest, TheSnapshotShowsWhatIsLeftToCompute) {
  StartWithOneSeat();
  const Request first = MakeRequest(40, 7);
  rig().Submit(first);
  rig().Step();
  EXPECT_EQ(Snapshot().prefill_tokens, 40 - 32);
  EXPECT_EQ(Snapshot().context_tokens, 40);
  rig().Step();
  EXPECT_EQ(Snapshot().prefill_tokens, 1) << "the token that was drawn";
  EXPECT_EQ(Snapshot().context_tokens, 41);
  rig().Submit(MakeRequest(40, 7));
  EXPECT_EQ(Snapshot().waiting_tokens, 40) << "nobody has looked";
  rig().Step();
  EXPECT_EQ(Snapshot().waiting, 1) << "no seat";
  EXPECT_EQ(Snapshot().waiting_tokens, 4) << "the others are cached, one is always computed";
  rig().RunAll();
  EXPECT_EQ(Snapshot().waiting_tokens, 0);
}

TEST_F(EngineSnapshotTest, AVersionOfTheLoadKnowsOfAllBeforeIt) {
  EXPECT_EQ(Snapshot().load_version, 0u);
  const Request first = MakeRequest(10, 2);
  const Request second = MakeRequest(10, 5, 300);
  EXPECT_EQ(rig().engine->Submit(first)->load_version, 1u);
  EXPECT_EQ(rig().engine->Submit(second)->load_version, 2u);
  EXPECT_EQ(Snapshot().load_version, 2u);
  EXPECT_EQ(Snapshot().waiting, 2);
  EXPECT_EQ(rig().listener.load_changes(), 2);
  rig().Step();
  EXPECT_EQ(Snapshot().load_version, 2u) << "a step by itself is no change";
  rig().Step();
  EXPECT_EQ(SinkOf(first).outcome().load_version, 3u);
  EXPECT_EQ(Snapshot().load_version, 3u);
  EXPECT_EQ(Snapshot().running, 1);
  rig().RunAll();
  EXPECT_EQ(SinkOf(second).outcome().load_version, 4u);
  EXPECT_EQ(rig().listener.load_changes(), 4);
  rig().engine->Drain();
  EXPECT_EQ(rig().listener.load_changes(), 5);
}

TEST_F(EngineSnapshotTest, TheSnapshotPredictsSteps) {
  const auto took = [](int64_t sequences, int64_t tokens) {
    return microseconds(500 * sequences + 200 * tokens);
  };
  rig().runner.set_on_launch([&](const ModelBatch& batch) {
    rig().clock.Advance(took(static_cast<int64_t>(batch.sequences.size()), batch.num_tokens));
  });
  EXPECT_EQ(Snapshot().step_model, StepModel{});
  for (int i = 0; i < 20; ++i) {
    rig().Submit(MakeRequest(10 + 9 * i, 10 + i, 1000 * i));
    rig().Step();
  }
  rig().RunAll();
  ASSERT_GT(Snapshot().steps, 60u);
  StepShape shape;
  shape.sequences = 2;
  shape.tokens = 30;
  shape.context_tokens = 100;
  shape.chunk_attention = 29 * 50;
  EXPECT_NEAR(Snapshot().step_model.PredictUs(shape), 7000, 700);
}

TEST_F(EngineSnapshotTest, TheListenerFollowsTheCache) {
  const Request request = MakeRequest(40, 3);
  rig().Submit(request);
  rig().Step();
  EXPECT_EQ(rig().listener.residency_changes(), 1);
  EXPECT_EQ(rig().listener.resident().size(), 8u) << "the blocks of a chunk";
  rig().RunAll();
  std::vector<TokenId> tokens = request.prompt;
  const auto hashes = rig().hasher.HashPrompt(request.cache_namespace, tokens);
  EXPECT_EQ(rig().listener.resident(), std::set<hash::BlockHash>(hashes.begin(), hashes.end()));
  EXPECT_EQ(rig().listener.residency_changes(), 2) << "the tokens drawn fill no block";
}

TEST_F(EngineSnapshotTest, LiveTokensOfASharedPrefixCountOnce) {
  const Request first = MakeRequest(17, 30);
  const Request second = MakeRequest(17, 30);
  rig().Submit(first);
  rig().Step();
  rig().Submit(second);
  rig().Step();
  const EngineSnapshot snapshot = Snapshot();
  EXPECT_EQ(snapshot.running, 2);
  EXPECT_EQ(snapshot.referenced_blocks, 4 + 2);
  EXPECT_EQ(snapshot.live_tokens, 16 + 2 + 1);
}

}  // namespace
}  // namespace qanat::engine
