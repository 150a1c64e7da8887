// Random histories on tiny pools: whatever the neighbours, chunks, hits, preemptions, cancellations and
// faults, an answer is what the request gets alone.

#include <algorithm>
#include <random>
#include <utility>

#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

constexpr int32_t kVocabulary = 1000;

// What happened over many histories, to see that they were not tame.
struct Tally {
  int64_t preemptions = 0;
  int64_t hit_tokens = 0;
  int64_t evictions = 0;
  int64_t complete = 0;
  int64_t broken_off = 0;
  int32_t most_preemptions = 0;
};

class History {
 public:
  explicit History(uint32_t seed) : random_(seed), rig_(MakeOptions()) {}

  void Run(Tally& tally) {
    const int num_requests = 4 + Below(12);
    int steps = 0;
    while (static_cast<int>(requests_.size()) < num_requests || !AllEnded()) {
      ASSERT_LT(++steps, 20000) << "no end in sight";
      while (static_cast<int>(requests_.size()) < num_requests && Below(3) == 0) Submit();
      if (!requests_.empty() && Below(20) == 0) Disturb();
      const bool pending = !AllEnded();
      const size_t steps_before = rig_.metrics.steps.size();
      const size_t ends_before = rig_.metrics.ends.size();
      ASSERT_EQ(rig_.Step(), pending);
      if (!pending) continue;
      ASSERT_TRUE(rig_.metrics.steps.size() > steps_before || rig_.metrics.ends.size() > ends_before)
          << "work was pending and nothing moved";
    }
    CheckAnswers(tally);
    CheckClean();
    for (const StepStats& stats : rig_.metrics.steps) {
      tally.preemptions += stats.preemptions;
      tally.hit_tokens += stats.hit_tokens;
      tally.evictions += stats.evictions;
    }
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  EngineOptions MakeOptions() {
    EngineOptions options = SmallOptions();
    options.block_size = 1 << Below(4);
    options.num_blocks = 8 + Below(33);
    options.context_length = 48 + Below(60);
    options.max_seqs = 1 + Below(10);
    options.max_batch_tokens = options.max_seqs + Below(50);
    constexpr int32_t kChunks[] = {1, 7, 64};
    options.chunk_tokens = kChunks[Below(3)];
    options.prefix_cache = Below(4) != 0;
    return options;
  }

  // Prompts begin like one of three texts, so that they share prefixes of any length.
  std::vector<TokenId> MakePrompt(int length) {
    std::vector<TokenId> prompt = EngineRig::Prompt(length, 100 * Below(3));
    for (int i = std::min(length, Below(60)); i < length; ++i) prompt[i] = Below(kVocabulary);
    return prompt;
  }

  void Submit() {
    const EngineOptions& options = rig_.options;
    const int largest = std::min(options.context_length, options.num_blocks * options.block_size);
    const int prompt = 1 + Below(std::min(largest - 1, 50));
    Request request = EngineRig::MakeRequest(MakePrompt(prompt), 1 + Below(std::min(largest - prompt, 40)));
    request.seed = random_();
    request.sampling.temperature = Below(2) == 0 ? 0.0f : 1.0f;
    request.priority = static_cast<Priority>(Below(3));
    request.bypass_prefix_cache = Below(8) == 0;
    request.cache_namespace.bytes[0] = static_cast<uint8_t>(Below(8) == 0);
    if (Below(4) == 0) request.end_tokens = {Below(kVocabulary), Below(30)};
    if (Below(8) == 0) request.deadline = rig_.clock.Now() + std::chrono::milliseconds(1 + Below(60));
    ids_.push_back(rig_.Submit(request));
    requests_.push_back(std::move(request));
  }

  // Cancels someone, or breaks a row of his.
  void Disturb() {
    const size_t i = static_cast<size_t>(Below(static_cast<int>(requests_.size())));
    if (Below(3) == 0) {
      rig_.runner.FailNextRowOf(ids_[i]);
    } else {
      rig_.engine->Cancel(ids_[i], Below(2) == 0 ? EndReason::kCancelled : EndReason::kStop);
    }
  }

  bool AllEnded() const {
    return std::all_of(requests_.begin(), requests_.end(),
                       [](const Request& request) { return EngineRig::SinkOf(request).ended(); });
  }

  void CheckAnswers(Tally& tally) const {
    for (const Request& request : requests_) {
      const Outcome outcome = EngineRig::SinkOf(request).outcome();
      const std::vector<TokenId> tokens = EngineRig::SinkOf(request).tokens();
      std::vector<TokenId> answer = rig_.Answer(request);
      ASSERT_EQ(outcome.completion_tokens, static_cast<int32_t>(tokens.size()));
      const bool complete = tokens.size() == answer.size();
      ++(complete ? tally.complete : tally.broken_off);
      if (!complete) {
        ASSERT_NE(outcome.reason, EndReason::kLength);
        ASSERT_LT(tokens.size(), answer.size());
        answer.resize(tokens.size());
      }
      ASSERT_EQ(tokens, answer);
      ASSERT_EQ(outcome.status.ok(),
                outcome.reason == EndReason::kStop || outcome.reason == EndReason::kLength);
      tally.most_preemptions = std::max(tally.most_preemptions, outcome.preemptions);
    }
    ASSERT_EQ(rig_.metrics.ends.size(), requests_.size());
  }

  void CheckClean() const {
    const EngineSnapshot snapshot = rig_.engine->Snapshot();
    ASSERT_EQ(snapshot.free_blocks + snapshot.cached_blocks, snapshot.total_blocks);
    ASSERT_EQ(snapshot.referenced_blocks, 0);
    ASSERT_EQ(snapshot.running + snapshot.waiting, 0);
    ASSERT_EQ(snapshot.waiting_tokens, 0);
  }

  std::mt19937 random_;
  EngineRig rig_;
  std::vector<Request> requests_;
  std::vector<SequenceId> ids_;
};

TEST(EngineRandomTest, EveryAnswerIsWhatTheRequestGetsAlone) {
  Tally tally;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    History history(seed);
    history.Run(tally);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(tally.preemptions, 3000);
  EXPECT_GT(tally.hit_tokens, 30000);
  EXPECT_GT(tally.evictions, 30000);
  EXPECT_GT(tally.complete, 15000);
  EXPECT_GT(tally.broken_off, 3000);
  EXPECT_LE(tally.most_preemptions, 3) << "the fourth admission is for good";
  EXPECT_EQ(tally.most_preemptions, 3) << "else the rule was never needed";
}

// What "alone" means is no invention of the fake: an engine with room for everything gives it, too.
TEST(EngineRandomTest, AloneOnABigPoolTheEngineGivesTheModelsAnswer) {
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    EngineOptions options = SmallOptions();
    options.chunk_tokens = 256;
    options.prefix_cache = false;
    EngineRig rig(options);
    Request request = EngineRig::MakeRequest({}, 1 + static_cast<int32_t>(random() % 40));
    for (uint32_t n = 1 + random() % 100; n > 0; --n) {
      request.prompt.push_back(static_cast<TokenId>(random() % kVocabulary));
    }
    request.seed = random();
    rig.Submit(request);
    rig.RunAll();
    ASSERT_EQ(EngineRig::SinkOf(request).tokens(), rig.Answer(request));
  }
}

}  // namespace
}  // namespace qanat::engine
