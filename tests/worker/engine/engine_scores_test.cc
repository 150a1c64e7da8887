// Log-probabilities: each token is scored once, whatever the chunks, hits, neighbours and preemptions.
#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

using Scores = std::vector<sampling::ScoredToken>;

// The scores of request's tokens [first, last) of prompt and output, as the model gives them.
Scores Expected(const Request& request, size_t first, size_t last, int32_t num_likeliest) {
  std::vector<TokenId> tokens = request.prompt;
  const std::vector<TokenId> output = EngineRig::SinkOf(request).tokens();
  tokens.insert(tokens.end(), output.begin(), output.end());
  Scores scores;
  for (size_t i = first; i < last; ++i) {
    scores.push_back(
        fakes::FakeModelRunner::Score(absl::MakeConstSpan(tokens).first(i), tokens[i], num_likeliest));
  }
  return scores;
}

void ExpectScored(const Request& request) {
  const fakes::RecordingSink& sink = EngineRig::SinkOf(request);
  const size_t prompt = request.prompt.size();
  if (request.logprobs.has_value()) {
    EXPECT_EQ(sink.scores(), Expected(request, prompt, prompt + sink.tokens().size(), *request.logprobs));
  } else {
    EXPECT_TRUE(sink.scores().empty());
  }
  if (request.prompt_logprobs.has_value()) {
    EXPECT_EQ(sink.prompt_scores(), Expected(request, 1, prompt, *request.prompt_logprobs));
  } else {
    EXPECT_TRUE(sink.prompt_scores().empty());
  }
}

// Counts the rows of logits that batches ask for.
void WatchRows(EngineRig& rig, int32_t& most) {
  rig.runner.set_on_launch([&](const ModelBatch& batch) {
    size_t rows = 0;
    for (const BatchSequence& row : batch.sequences) rows += row.scored.size() + (row.sample ? 1 : 0);
    most = std::max(most, static_cast<int32_t>(rows));
    ASSERT_LE(most, rig.options.max_logit_rows());
  });
}

TEST(EngineScoresTest, EveryDrawnTokenIsScoredIfAskedTo) {
  EngineRig rig(SmallOptions());
  Request scored = EngineRig::MakeRequest(EngineRig::Prompt(40), 20);
  scored.logprobs = 3;
  const Request silent = EngineRig::MakeRequest(EngineRig::Prompt(9, 500), 20);
  rig.Submit(scored);
  rig.Submit(silent);
  rig.RunAll();
  ExpectScored(scored);
  ExpectScored(silent);
}

TEST(EngineScoresTest, APromptIsScoredOnceInWhateverChunks) {
  for (const int32_t chunk : {1, 7, 32}) {
    EngineOptions options = SmallOptions();
    options.chunk_tokens = chunk;
    EngineRig rig(options);
    int32_t most = 0;
    WatchRows(rig, most);
    for (const int prompt : {1, 2, 33, 100}) {
      Request request = EngineRig::MakeRequest(EngineRig::Prompt(prompt), 3);
      request.prompt_logprobs = 2;
      rig.Submit(request);
      rig.RunAll();
      ExpectScored(request);
    }
  }
}

TEST(EngineScoresTest, APromptThatIsScoredReadsNoCachedBlockAndPublishesItsOwn) {
  EngineRig rig(SmallOptions());
  for (int i = 0; i < 2; ++i) {
    Request request = EngineRig::MakeRequest(EngineRig::Prompt(41), 2);
    request.prompt_logprobs = 0;
    rig.Submit(request);
    rig.RunAll();
    ExpectScored(request);
    EXPECT_EQ(EngineRig::SinkOf(request).outcome().cached_tokens, 0);
  }
  const Request reader = EngineRig::MakeRequest(EngineRig::Prompt(41), 2);
  rig.Submit(reader);
  rig.RunAll();
  EXPECT_EQ(EngineRig::SinkOf(reader).outcome().cached_tokens, 40);
}

TEST(EngineScoresTest, RowsStayInBoundsBesideManyDecodes) {
  EngineOptions options = SmallOptions();
  options.num_blocks = 400;
  EngineRig rig(options);
  int32_t most = 0;
  WatchRows(rig, most);
  std::vector<Request> requests;
  for (int i = 0; i < 24; ++i) {
    requests.push_back(EngineRig::MakeRequest(EngineRig::Prompt(i % 3 == 0 ? 60 : 5, 100 * i), 30));
    if (i % 3 == 0) requests.back().prompt_logprobs = 1;
    rig.Submit(requests.back());
  }
  rig.RunAll();
  EXPECT_GT(most, options.max_seqs) << "prompts are scored faster than a token a step";
  for (const Request& request : requests) ExpectScored(request);
}

TEST(EngineScoresTest, NothingIsToldTwiceAfterAPreemption) {
  EngineOptions options = SmallOptions();
  options.block_size = 16;
  options.num_blocks = 20;
  EngineRig rig(options);
  std::vector<Request> requests;
  for (int i = 0; i < 8; ++i) {
    requests.push_back(EngineRig::MakeRequest(EngineRig::Prompt(30, 100 * i), 90));
    requests.back().logprobs = 1;
    requests.back().prompt_logprobs = 1;
    rig.Submit(requests.back());
  }
  rig.RunAll();
  int32_t preemptions = 0;
  for (const Request& request : requests) {
    ExpectScored(request);  // and the sink aborts on a repeat
    preemptions += EngineRig::SinkOf(request).outcome().preemptions;
  }
  EXPECT_GT(preemptions, 0);
}

}  // namespace
}  // namespace qanat::engine
