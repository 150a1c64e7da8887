#include "tools/qanat/load/traffic.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace qanat::tools {
namespace {

constexpr int32_t kVocab = 5000;

std::vector<TokenId> PromptOf(const Turn& turn, uint64_t seed = 1) {
  std::vector<TokenId> tokens;
  for (const Piece& piece : turn.prompt) AppendTokens(piece, seed, kVocab, tokens);
  return tokens;
}

size_t CommonPrefix(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

TEST(TrafficTest, PromptsOfAGroupShareTheirBeginningAndNothingElse) {
  const std::vector<Session> sessions =
      MakeSessions({.sessions = 24, .turns = 1, .groups = 8, .shared = 512, .own = 32, .output = 16});
  ASSERT_EQ(sessions.size(), 24u);
  for (int i = 0; i < 24; ++i) {
    const std::vector<TokenId> prompt = PromptOf(sessions[i].turns[0]);
    EXPECT_EQ(prompt.size(), 544u);
    EXPECT_EQ(sessions[i].turns[0].output, 16);
    for (int j = 0; j < i; ++j) {
      const size_t common = CommonPrefix(prompt, PromptOf(sessions[j].turns[0]));
      // Two ids may be equal by chance.
      EXPECT_NEAR(static_cast<double>(common), i % 8 == j % 8 ? 512 : 0, 2) << i << " " << j;
    }
  }
}

TEST(TrafficTest, EachTurnAddsItsOwnTokens) {
  const std::vector<Session> sessions =
      MakeSessions({.sessions = 2, .turns = 3, .groups = 1, .shared = 100, .own = 20, .output = 5});
  for (const Session& session : sessions) {
    ASSERT_EQ(session.turns.size(), 3u);
    EXPECT_EQ(PromptOf(session.turns[0]).size(), 120u);
    EXPECT_EQ(PromptOf(session.turns[1]).size(), 20u);
    EXPECT_NE(PromptOf(session.turns[1]), PromptOf(session.turns[2]));
  }
  EXPECT_NE(PromptOf(sessions[0].turns[1]), PromptOf(sessions[1].turns[1]));
}

TEST(TrafficTest, TokensFollowFromKeyAndSeed) {
  const Turn turn = {.prompt = {{7, 400}}, .output = 1};
  const std::vector<TokenId> tokens = PromptOf(turn);
  EXPECT_EQ(PromptOf(turn), tokens);
  EXPECT_NE(PromptOf(turn, 2), tokens);
  EXPECT_EQ(PromptOf({.prompt = {{7, 100}}, .output = 1}),
            std::vector<TokenId>(tokens.begin(), tokens.begin() + 100));
  EXPECT_LT(CommonPrefix(tokens, PromptOf({.prompt = {{8, 400}}, .output = 1})), 3u);
  for (const TokenId id : tokens) {
    EXPECT_GE(id, 0);
    EXPECT_LT(id, kVocab);
  }
}

TEST(TrafficTest, PoissonArrivalsHaveTheRateAndItsVariance) {
  std::vector<Session> sessions(20000);
  ArriveAtRandom(50, 3, sessions);
  double sum = 0;
  double squares = 0;
  Duration before{};
  for (const Session& session : sessions) {
    EXPECT_GE(session.arrival, before);
    const double gap = Seconds(session.arrival - before);
    before = session.arrival;
    sum += gap;
    squares += gap * gap;
  }
  const double mean = sum / 20000;
  EXPECT_NEAR(mean, 0.02, 0.0005);
  // Of an exponential gap the standard deviation is the mean.
  EXPECT_NEAR(squares / 20000 - mean * mean, mean * mean, 0.00004);
}

TEST(TrafficTest, SpeedsUpAndShrinks) {
  std::vector<Session> sessions = {
      {.arrival = std::chrono::seconds(10), .turns = {{.prompt = {{1, 512}, {2, 10}}, .output = 33}}}};
  SpeedUp(4, sessions);
  EXPECT_EQ(sessions[0].arrival, std::chrono::milliseconds(2500));
  Shrink(32, sessions);
  EXPECT_EQ(sessions[0].turns[0].prompt[0].tokens, 16);
  EXPECT_EQ(sessions[0].turns[0].prompt[1].tokens, 1);
  EXPECT_EQ(sessions[0].turns[0].output, 2);
}

}  // namespace
}  // namespace qanat::tools
