// How answers stop: stop strings, stop tokens, EOS and min_tokens.
#include <string>
#include <vector>

#include "common/base/error.h"
#include "gtest/gtest.h"
#include "tests/worker/service/generate_fixture.h"

namespace qanat::service {
namespace {

using GenerateStopsTest = GenerateFixture;

// A08.
TEST_F(GenerateStopsTest, AStopInsideATokenEndsTheAnswerBeforeIt) {
  std::vector<TokenId> script = Bytes("ABC");
  script.push_back(worker_->tokenizer().Encode("DEF").at(0));
  for (const TokenId id : Bytes("GHIJKLMNOP")) script.push_back(id);
  runner_.SetScript(kSeed, script);
  for (const char* stop : {"DE", "E", "CD"}) {
    v1::GenerateRequest request = Request();
    request.mutable_stopping()->add_stop(stop);
    const Heard heard = Generate(request);
    ASSERT_TRUE(heard.status.ok()) << heard.status;
    EXPECT_EQ(heard.text(), std::string("ABCDEF").substr(0, std::string("ABCDEF").find(stop)));
    EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_STOP);
    EXPECT_EQ(heard.last().finish().stop(), stop);
    EXPECT_EQ(heard.last().usage().completion_tokens(), 4) << "up to the token that completed the stop";
    EXPECT_EQ(heard.ids().size(), 4u) << "nothing of what the engine ran ahead";
  }
}

// A09.
TEST_F(GenerateStopsTest, APossibleStopIsHeldBackAndReleased) {
  Script("ABCDEFGHIJKL");
  v1::GenerateRequest request = Request();
  request.mutable_stopping()->add_stop("DEFGHIJ");
  EXPECT_EQ(Generate(request).text(), "ABC");
  request.mutable_stopping()->set_stop(0, "DEFGHIJK!");
  EXPECT_EQ(Generate(request).text(), "ABCDEFGHIJKL");
  request.mutable_stopping()->set_max_tokens(9);
  const Heard cut = Generate(request);
  EXPECT_EQ(cut.text(), "ABCDEFGHI");
  EXPECT_EQ(cut.last().finish().reason(), v1::FINISH_REASON_LENGTH);
}

TEST_F(GenerateStopsTest, IdsDoNotWaitForTextThatDoes) {
  Script("DEFx");
  runner_.Allow(1);
  v1::GenerateRequest request = Request();
  request.mutable_stopping()->add_stop("DEFG");
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  EXPECT_EQ(message.text(), "");
  EXPECT_EQ(message.token_ids_size(), 1);
  runner_.Allow(-1);
  const Heard heard = ReadAll(*reader);
  EXPECT_TRUE(heard.status.ok()) << heard.status;
  EXPECT_EQ(heard.text(), "DEFx");
}

TEST_F(GenerateStopsTest, IgnoreEosGoesOnToTheLength) {
  Script("a");
  v1::GenerateRequest request = Request(5);
  request.mutable_stopping()->set_ignore_eos(true);
  const Heard heard = Generate(request);
  EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(heard.last().usage().completion_tokens(), 5);
  EXPECT_EQ(heard.text(), "a");
}

TEST_F(GenerateStopsTest, AStopTokenEndsTheAnswerAndIsNamed) {
  Script("abcdefghij");
  v1::GenerateRequest request = Request();
  request.mutable_stopping()->add_stop_token_ids(fakes::ByteToken('z'));
  request.mutable_stopping()->add_stop_token_ids(fakes::ByteToken('d'));
  for (const bool include : {false, true}) {
    request.mutable_stopping()->set_include_stop(include);
    const Heard heard = Generate(request);
    ASSERT_TRUE(heard.status.ok()) << heard.status;
    EXPECT_EQ(heard.text(), include ? "abcd" : "abc");
    EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_STOP);
    EXPECT_EQ(heard.last().finish().stop_token_id(), fakes::ByteToken('d'));
    EXPECT_EQ(heard.last().usage().completion_tokens(), 4);
    EXPECT_EQ(heard.ids().size(), 4u);
  }
}

TEST_F(GenerateStopsTest, IncludesAStopStringIfAskedTo) {
  Script("abcdefghij");
  v1::GenerateRequest request = Request();
  request.mutable_stopping()->add_stop("de");
  request.mutable_stopping()->set_include_stop(true);
  const Heard heard = Generate(request);
  EXPECT_EQ(heard.text(), "abcde");
  EXPECT_EQ(heard.last().finish().stop(), "de");
}

TEST_F(GenerateStopsTest, AStopStringBeforeMinTokensIsText) {
  Script("abab");
  v1::GenerateRequest request = Request();
  request.mutable_stopping()->add_stop("ab");
  request.mutable_stopping()->set_min_tokens(3);
  const Heard heard = Generate(request);
  EXPECT_EQ(heard.text(), "ab");
  EXPECT_EQ(heard.last().usage().completion_tokens(), 4);
}

TEST_F(GenerateStopsTest, RefusesMinTokensThatMaskAllThatIsAllowed) {
  v1::GenerateRequest request = Request(5);
  request.mutable_sampling()->add_allowed_token_ids(worker_->tokenizer().eos());
  request.mutable_stopping()->set_min_tokens(1);
  const Heard heard = Generate(request);
  EXPECT_EQ(heard.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(heard.status), "stopping.min_tokens");
}

}  // namespace
}  // namespace qanat::service
