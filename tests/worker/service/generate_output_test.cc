// What an answer brings besides text, and in how many messages: log-probabilities and delivery.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/service/generate_fixture.h"

namespace qanat::service {
namespace {

using GenerateOutputTest = GenerateFixture;

std::vector<v1::TokenLogprob> Logprobs(const Heard& heard) {
  std::vector<v1::TokenLogprob> all;
  for (const auto& message : heard.messages) {
    all.insert(all.end(), message.logprobs().begin(), message.logprobs().end());
  }
  return all;
}

TEST_F(GenerateOutputTest, ScoresEveryTokenWithItsBytes) {
  Script(std::string("a") + kFire);
  v1::GenerateRequest request = Request();
  request.mutable_output()->set_logprobs(2);
  const Heard heard = Generate(request);
  ASSERT_TRUE(heard.status.ok()) << heard.status;
  const auto logprobs = Logprobs(heard);
  ASSERT_EQ(static_cast<int>(logprobs.size()), heard.last().usage().completion_tokens());
  const std::string bytes = std::string("a") + kFire;
  for (size_t i = 0; i < logprobs.size(); ++i) {
    EXPECT_EQ(logprobs[i].token_id(), heard.ids()[i]);
    EXPECT_EQ(logprobs[i].token(), i < bytes.size() ? bytes.substr(i, 1) : "")
        << "one byte, or the end token";
    EXPECT_EQ(logprobs[i].logprob(), ScriptedRunner::LogprobAt(static_cast<uint32_t>(i)));
    EXPECT_EQ(logprobs[i].alternatives_size(), 2);
  }
  request.mutable_output()->clear_logprobs();
  EXPECT_TRUE(Logprobs(Generate(request)).empty());
}

TEST_F(GenerateOutputTest, ScoresThePromptBeforeTheFirstToken) {
  Script("ab");
  v1::GenerateRequest request = Request();
  request.mutable_output()->set_prompt_logprobs(1);
  const Heard heard = Generate(request);
  ASSERT_TRUE(heard.status.ok()) << heard.status;
  std::string bytes;
  for (const auto& message : heard.messages) {
    EXPECT_TRUE(message.prompt_logprobs().empty() || message.first_token() == 0);
    for (const auto& scored : message.prompt_logprobs()) bytes += scored.token();
  }
  EXPECT_EQ(bytes, "rompt");
  EXPECT_TRUE(Logprobs(heard).empty());
}

TEST_F(GenerateOutputTest, FinalOnlyIsOneMessage) {
  Script("hello world, and so on");
  const Heard deltas = Generate(Request());
  v1::GenerateRequest request = Request();
  request.mutable_output()->set_delivery(v1::DELIVERY_FINAL_ONLY);
  request.mutable_output()->set_logprobs(1);
  request.mutable_output()->set_prompt_logprobs(0);
  const Heard heard = Generate(request);
  ASSERT_TRUE(heard.status.ok()) << heard.status;
  ASSERT_EQ(heard.messages.size(), 1u);
  EXPECT_EQ(heard.text(), deltas.text());
  EXPECT_EQ(heard.ids(), deltas.ids());
  EXPECT_EQ(heard.last().logprobs_size(), heard.last().usage().completion_tokens());
  EXPECT_EQ(heard.last().prompt_logprobs_size(), 5);
}

TEST_F(GenerateOutputTest, FinalOnlyTellsHowFarItCameBeforeItFailed) {
  Script("abc");
  runner_.FailAt(kSeed, 2);
  v1::GenerateRequest request = Request();
  request.mutable_output()->set_delivery(v1::DELIVERY_FINAL_ONLY);
  const Heard heard = Generate(request);
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kInternal);
  ASSERT_EQ(heard.messages.size(), 1u);
  EXPECT_EQ(heard.text(), "ab");
  EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_ERROR);
}

TEST_F(GenerateOutputTest, AMessageThatWouldPassAMebibyteIsSplit) {
  FixtureOptions options;
  options.context_length = 6000;
  options.num_blocks = 400;
  Start(options);
  for (const auto delivery : {v1::DELIVERY_FINAL_ONLY, v1::DELIVERY_DELTAS}) {
    v1::GenerateRequest request = Request(5);
    request.mutable_token_ids()->mutable_ids()->Resize(5000, fakes::ByteToken('p'));
    request.mutable_output()->set_prompt_logprobs(20);
    request.mutable_output()->set_delivery(delivery);
    const Heard heard = Generate(request);
    ASSERT_TRUE(heard.status.ok()) << heard.status;
    ASSERT_GT(heard.messages.size(), 1u);
    int scored = 0;
    for (const auto& message : heard.messages) {
      EXPECT_LE(message.ByteSizeLong(), size_t{1} << 20);
      EXPECT_TRUE(message.prompt_logprobs().empty() || message.first_token() == 0);
      scored += message.prompt_logprobs_size();
    }
    EXPECT_EQ(scored, 4999);
    EXPECT_EQ(heard.text(), "xxxxx");
    EXPECT_EQ(heard.ids().size(), 5u);
  }
}

}  // namespace
}  // namespace qanat::service
