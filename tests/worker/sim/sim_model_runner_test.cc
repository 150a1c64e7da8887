#include "worker/sim/sim_model_runner.h"

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "common/base/virtual_clock.h"
#include "gtest/gtest.h"
#include "tests/fakes/recording_sink.h"
#include "worker/engine/engine.h"

namespace qanat::sim {
namespace {

using engine::BatchSequence;
using engine::ModelBatch;
using engine::SequenceOutput;

constexpr int32_t kVocabulary = 5000;
constexpr StepModel kDevice{1000, 10, 2000, 100, 0.5, 0.25};

Duration Microseconds(double us) { return Duration(static_cast<int64_t>(us * 1e3)); }

// A row of `tokens` tokens from `first` on, which draws position `position`.
BatchSequence Row(absl::Span<const TokenId> tokens, int32_t first, uint64_t seed, uint32_t position = 0) {
  BatchSequence row;
  row.first_position = first;
  row.tokens = tokens;
  row.sample = true;
  row.draw = {seed, 0, position};
  return row;
}

ModelBatch BatchOf(std::vector<BatchSequence> rows) {
  ModelBatch batch;
  for (const BatchSequence& row : rows) batch.num_tokens += static_cast<int32_t>(row.tokens.size());
  batch.sequences = std::move(rows);
  return batch;
}

class SimModelRunnerTest : public testing::Test {
 protected:
  SequenceOutput Run(const BatchSequence& row) {
    const ModelBatch batch = BatchOf({row});
    return runner_.Collect(runner_.Launch(batch)).sequences[0];
  }

  const std::vector<TokenId> tokens_ = std::vector<TokenId>(512, 7);
  VirtualClock clock_;
  SimModelRunner runner_{{.device = kDevice, .vocabulary = kVocabulary}, clock_};
};

TEST_F(SimModelRunnerTest, AStepTakesWhatTheModelSays) {
  const absl::Span<const TokenId> tokens = tokens_;
  const struct {
    ModelBatch batch;
    double us;
  } kSteps[] = {
      // One decode: reading the weights costs more than its token.
      {BatchOf({Row(tokens.first(1), 99, 1)}), 1000 + 10 + 2000 + 0.5 * 100},
      // Beyond the knee; a chunk's attention is its tokens times its context.
      {BatchOf({Row(tokens.first(64), 100, 1)}), 1000 + 10 + 6400 + 0.5 * 164 + 0.25 * 64 * 164},
      {BatchOf({Row(tokens.first(1), 199, 1), Row(tokens.first(30), 0, 2)}),
       1000 + 20 + 3100 + 0.5 * 230 + 0.25 * 900},
  };
  for (const auto& step : kSteps) {
    const Time before = clock_.Now();
    const auto handle = runner_.Launch(step.batch);
    EXPECT_EQ(clock_.Now(), before) << "a launch takes no time";
    runner_.Collect(handle);
    EXPECT_EQ(clock_.Now() - before, Microseconds(step.us));
  }
}

TEST_F(SimModelRunnerTest, StepsInFlightRunOneAfterTheOther) {
  SimModelRunner runner({.device = kDevice, .vocabulary = kVocabulary, .depth = 2}, clock_);
  EXPECT_EQ(runner.depth(), 2);
  const ModelBatch batch = BatchOf({Row(absl::MakeConstSpan(tokens_).first(1), 99, 1)});
  const Duration step = Microseconds(3060);
  const Time begin = clock_.Now();
  auto first = runner.Launch(batch);
  auto second = runner.Launch(batch);
  runner.Collect(first);
  EXPECT_EQ(clock_.Now() - begin, step);
  // The host takes its time; the device has the second step to do meanwhile.
  clock_.Advance(step / 2);
  first = runner.Launch(batch);
  runner.Collect(second);
  EXPECT_EQ(clock_.Now() - begin, 2 * step);
  runner.Collect(first);
  EXPECT_EQ(clock_.Now() - begin, 3 * step);
  // An idle device starts when it is told to.
  clock_.Advance(step);
  runner.Collect(runner.Launch(batch));
  EXPECT_EQ(clock_.Now() - begin, 5 * step);
}

TEST_F(SimModelRunnerTest, ATokenIsOfItsRequestAndPositionAlone) {
  std::mt19937 random(1);
  const absl::Span<const TokenId> tokens = tokens_;
  for (int i = 0; i < 200; ++i) {
    const uint64_t seed = random() % 50;
    const uint32_t position = random() % 50;
    const TokenId alone = Run(Row(tokens.first(1), 3, seed, position)).token;
    ASSERT_GE(alone, 0);
    ASSERT_LT(alone, kVocabulary);
    // Among others, in another chunk, behind another context, on another device.
    std::vector<BatchSequence> rows;
    const size_t place = random() % 4;
    for (size_t row = 0; row < 4; ++row) {
      rows.push_back(row == place ? Row(tokens.first(1 + random() % 100), 10 + i, seed, position)
                                  : Row(tokens.first(1), 5, random(), random() % 100));
    }
    const ModelBatch batch = BatchOf(rows);
    SimModelRunner other({.device = kReferenceDevice, .vocabulary = kVocabulary}, clock_);
    EXPECT_EQ(other.Collect(other.Launch(batch)).sequences[place].token, alone);
  }
}

TEST_F(SimModelRunnerTest, SeedsChoicesAndPositionsDifferAndGreedyKnowsNoSeed) {
  const absl::Span<const TokenId> tokens = tokens_;
  BatchSequence row = Row(tokens.first(1), 3, 1, 5);
  const TokenId token = Run(row).token;
  EXPECT_NE(Run(Row(tokens.first(1), 3, 2, 5)).token, token);
  EXPECT_NE(Run(Row(tokens.first(1), 3, 1, 6)).token, token);
  row.draw.choice = 1;
  EXPECT_NE(Run(row).token, token);
  row.params.temperature = 0;
  const TokenId greedy = Run(row).token;
  row.draw = {99, 0, 5};
  EXPECT_EQ(Run(row).token, greedy);
}

TEST_F(SimModelRunnerTest, OnlyWhatDrawsGetsATokenAndScoresAreThoseOfEqualChances) {
  const absl::Span<const TokenId> tokens = tokens_;
  BatchSequence row = Row(tokens.first(8), 0, 1);
  row.sample = false;
  row.scored = tokens.first(3);
  row.scored_logprobs = 2;
  const SequenceOutput scored = Run(row);
  EXPECT_EQ(scored.kind, SequenceOutput::Kind::kNone);
  ASSERT_EQ(scored.scored.size(), 3u);
  const float logprob = -std::log(static_cast<float>(kVocabulary));
  EXPECT_EQ(scored.scored[0], (sampling::ScoredToken{{7, logprob}, {{0, logprob}, {1, logprob}}}));

  row = Row(tokens.first(1), 8, 1);
  row.logprobs = 1;
  const SequenceOutput drawn = Run(row);
  ASSERT_EQ(drawn.drawn.size(), 1u);
  EXPECT_EQ(drawn.drawn[0], (sampling::ScoredToken{{drawn.token, logprob}, {{0, logprob}}}));
}

TEST_F(SimModelRunnerTest, RightDraftsAreTakenUpToTheFirstWrongOne) {
  const absl::Span<const TokenId> one = absl::MakeConstSpan(tokens_).first(1);
  std::vector<TokenId> answer;
  for (uint32_t i = 0; i < 4; ++i) answer.push_back(Run(Row(one, 9, 1, i)).token);
  for (size_t right = 0; right <= 3; ++right) {
    std::vector<TokenId> with_drafts = {7, answer[0], answer[1], answer[2]};
    if (right < 3) with_drafts[right + 1] ^= 1;
    BatchSequence row = Row(with_drafts, 9, 1);
    row.num_drafts = 3;
    row.logprobs = 0;
    const SequenceOutput output = Run(row);
    EXPECT_EQ(output.token, answer[0]);
    EXPECT_EQ(output.more, std::vector<TokenId>(answer.begin() + 1, answer.begin() + 1 + right));
    EXPECT_EQ(output.drawn.size(), 1 + right);
  }
}

TEST_F(SimModelRunnerTest, RulesThatForbidAreKept) {
  sampling::LogitRules rules;
  rules.allowed = {11, 500, 4999};
  rules.late = {500, 4999};
  rules.min_tokens = 20;
  const sampling::TokenCounts counts;
  bool others = false;
  for (uint32_t position = 0; position < 100; ++position) {
    BatchSequence row = Row(absl::MakeConstSpan(tokens_).first(1), 9, 1, position);
    row.rules = &rules;
    row.counts = &counts;
    const TokenId token = Run(row).token;
    EXPECT_TRUE(token == 11 || token == 500 || token == 4999);
    EXPECT_TRUE(token == 11 || position >= 20);
    others |= token != 11;
  }
  EXPECT_TRUE(others);
}

// The whole engine upon it, in virtual time: an answer is the same whatever runs beside it.
TEST_F(SimModelRunnerTest, AnEngineGivesTheSameAnswersFromASmallPoolInCompany) {
  const auto answers = [this](int32_t blocks, int32_t chunk, int at_once) {
    engine::EngineOptions options;
    options.context_length = 256;
    options.num_blocks = blocks;
    options.chunk_tokens = chunk;
    engine::EngineMetrics metrics;
    engine::Engine engine(options, hash::BlockHasher(hash::kPublicKey, "sim", 16), runner_, clock_, metrics);
    std::vector<std::shared_ptr<fakes::RecordingSink>> sinks;
    for (int i = 0; i < 24; ++i) {
      engine::Request request;
      request.prompt = std::vector<TokenId>(5 + 7 * static_cast<size_t>(i % 9), i % 3);
      request.seed = static_cast<uint64_t>(i);
      request.max_tokens = 10 + i;
      request.sink = sinks.emplace_back(std::make_shared<fakes::RecordingSink>());
      EXPECT_TRUE(engine.Submit(std::move(request)).ok());
      if (i % at_once != 0) continue;
      while (engine.Step()) {
      }
    }
    while (engine.Step()) {
    }
    std::vector<std::vector<TokenId>> result;
    for (const auto& sink : sinks) result.push_back(sink->tokens());
    return result;
  };
  const auto alone = answers(100, 256, 1);
  EXPECT_EQ(alone[23].size(), 33u);
  EXPECT_EQ(answers(20, 7, 24), alone);
}

}  // namespace
}  // namespace qanat::sim
