// A06 as a caller sees it: no message holds a piece of a character, held bytes come with the token that
// completes it, and what streams is what comes in one message.
#include <string>

#include "common/text/utf8.h"
#include "gtest/gtest.h"
#include "tests/worker/service/generate_fixture.h"

namespace qanat::service {
namespace {

using A06CharactersInStreamsTest = GenerateFixture;

TEST_F(A06CharactersInStreamsTest, FireOverFourTokensStreamsWhole) {
  std::string fires = "\U0001F525";
  for (int i = 1; i < 8; ++i) fires += " \U0001F525";
  Script(fires);
  v1::GenerateRequest request = Request();
  const Heard stream = Generate(request);
  ASSERT_TRUE(stream.status.ok()) << stream.status;
  for (const auto& message : stream.messages) {
    EXPECT_TRUE(text::IsValidUtf8(message.text()));
    EXPECT_EQ(message.text().find(text::kReplacement), std::string::npos);
  }
  EXPECT_EQ(stream.text(), fires);
  request.mutable_output()->set_delivery(v1::DELIVERY_FINAL_ONLY);
  EXPECT_EQ(Generate(request).text(), fires);
}

TEST_F(A06CharactersInStreamsTest, EachStepReleasesExactlyWhatIsComplete) {
  const std::string answer = "a\U0001F525b\u00E9";
  Script(answer);
  runner_.Allow(0);
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Request());
  std::string said;
  for (size_t tokens = 1; tokens <= answer.size(); ++tokens) {
    runner_.WaitUntilHeld();
    runner_.Allow(1);
    v1::GenerateResponse message;  // a token a step: its id comes at once
    ASSERT_TRUE(reader->Read(&message));
    said += message.text();
    std::string complete;
    text::AppendCharacters(answer.substr(0, tokens), complete);
    EXPECT_EQ(said, complete);
  }
  runner_.Allow(-1);
  for (v1::GenerateResponse message; reader->Read(&message);) said += message.text();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(said, answer);
}

}  // namespace
}  // namespace qanat::service
