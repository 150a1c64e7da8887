#include "tools/qanat/load/trace.h"

#include <algorithm>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qanat::tools {
namespace {

using testing::HasSubstr;

absl::StatusOr<std::vector<Session>> Parse(const std::string& text, int limit = 0) {
  std::istringstream lines(text);
  return ParseTrace(lines, limit);
}

int32_t PromptTokens(const Session& session) {
  int32_t tokens = 0;
  for (const Piece& piece : session.turns[0].prompt) tokens += piece.tokens;
  return tokens;
}

TEST(TraceTest, ReadsMooncake) {
  const auto sessions =
      Parse(R"({"timestamp": 2000, "input_length": 1100, "output_length": 7, "hash_ids": [0, 1, 2]})"
            "\n"
            R"({"timestamp": 5500, "input_length": 512, "output_length": 0, "hash_ids": [0]})"
            "\n"
            R"({"timestamp": 5500, "input_length": 513, "output_length": 1, "hash_ids": [0, 9]})"
            "\n");
  ASSERT_TRUE(sessions.ok()) << sessions.status();
  ASSERT_EQ(sessions->size(), 3u);
  const Session& first = (*sessions)[0];
  EXPECT_EQ(first.arrival, Duration::zero()) << "the first request begins the trace";
  ASSERT_EQ(first.turns[0].prompt.size(), 3u);
  EXPECT_EQ(first.turns[0].prompt[2].key, 2u);
  EXPECT_EQ(first.turns[0].prompt[2].tokens, 1100 - 1024);
  EXPECT_EQ(first.turns[0].output, 7);
  EXPECT_EQ((*sessions)[1].arrival, std::chrono::milliseconds(3500));
  EXPECT_EQ((*sessions)[1].turns[0].output, 1) << "nobody can be asked for nothing";
  EXPECT_EQ(PromptTokens((*sessions)[2]), 513);

  // Blocks 0 are one; what follows them is not.
  std::vector<TokenId> a;
  std::vector<TokenId> b;
  for (const Piece& piece : first.turns[0].prompt) AppendTokens(piece, 1, 49152, a);
  for (const Piece& piece : (*sessions)[2].turns[0].prompt) AppendTokens(piece, 1, 49152, b);
  EXPECT_TRUE(std::equal(b.begin(), b.begin() + 512, a.begin()));
  EXPECT_NE(a[512], b[512]);
}

TEST(TraceTest, ReadsAzure) {
  const auto sessions = Parse(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-11-16 23:59:59.9799600,4808,10\r\n"
      "2023-11-17 00:00:01.0319600,3180,8\r\n"
      "2023-11-16 23:59:59.9899600,5,0\r\n");
  ASSERT_TRUE(sessions.ok()) << sessions.status();
  ASSERT_EQ(sessions->size(), 3u);
  EXPECT_EQ((*sessions)[0].arrival, Duration::zero());
  EXPECT_EQ((*sessions)[1].arrival, std::chrono::milliseconds(10)) << "in order of arrival";
  EXPECT_EQ((*sessions)[2].arrival, std::chrono::milliseconds(1052));
  EXPECT_EQ(PromptTokens((*sessions)[2]), 3180);
  EXPECT_EQ((*sessions)[2].turns[0].output, 8);
  EXPECT_NE((*sessions)[0].turns[0].prompt[0].key, (*sessions)[2].turns[0].prompt[0].key);
}

TEST(TraceTest, TakesTheFirstOnly) {
  const auto sessions = Parse(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2023-11-16 18:17:03.9,1,1\n"
      "2023-11-16 18:17:04.9,2,2\n",
      1);
  ASSERT_TRUE(sessions.ok()) << sessions.status();
  EXPECT_EQ(sessions->size(), 1u);
}

TEST(TraceTest, NamesTheLineAtFault) {
  const std::string good = R"({"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [4]})"
                           "\n";
  const struct {
    std::string text;
    const char* said;
  } cases[] = {
      {"", "empty"},
      {"TIMESTAMP,ContextTokens,GeneratedTokens\n", "empty"},
      {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9,1\n", "line 2"},
      {"TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n", "line 2"},
      {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9,99999999999,1\n", "range"},
      {"TIMESTAMP,ContextTokens,GeneratedTokens\n0001-01-01 00:00:00.0,1,1\n", "time"},
      {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9,nan,1\n", "range"},
      {good + "{\n", "line 2"},
      {good + "[1]\n", "line 2"},
      {good + R"({"timestamp": "0", "input_length": 5, "output_length": 1, "hash_ids": [4]})", "timestamp"},
      {good + R"({"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": 4})", "hash_ids"},
      {good + R"({"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [4]})", "512"},
      {good + R"({"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [4, 5]})", "512"},
      {good + R"({"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": ["4"]})", "512"},
      {good + R"({"timestamp": 0, "input_length": -5, "output_length": 1, "hash_ids": [4]})", "range"},
      {good + R"({"timestamp": 0, "input_length": 1e300, "output_length": 1, "hash_ids": [4]})", "range"},
      {good + R"({"timestamp": 0, "output_length": 1, "hash_ids": [4]})", "range"},
  };
  for (const auto& one : cases) {
    const auto sessions = Parse(one.text);
    ASSERT_FALSE(sessions.ok()) << one.text;
    EXPECT_TRUE(absl::IsInvalidArgument(sessions.status()));
    EXPECT_THAT(std::string(sessions.status().message()), HasSubstr(one.said)) << one.text;
  }
  EXPECT_TRUE(absl::IsNotFound(ReadTrace("/nowhere/trace.csv", 0).status()));
}

}  // namespace
}  // namespace qanat::tools
