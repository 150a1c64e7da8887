// Texts as ids and back: what is allowed can be sent.
#include <string>

#include "common/api/limits.h"
#include "gtest/gtest.h"
#include "tests/worker/service/scripted_runner.h"
#include "tests/worker/service/service_fixture.h"

namespace qanat::service {
namespace {

class TokenizeTest : public testing::Test {
 protected:
  static FixtureOptions HugeContext() {
    FixtureOptions options = LongTokens();
    options.context_length = 1 << 17;
    options.num_blocks = 1 << 13;
    return options;
  }

  ScriptedRunner runner_{fakes::ByteToken('x')};
  Worker worker_{runner_, HugeContext()};
  std::unique_ptr<v1::InferenceService::Stub> stub_ = v1::InferenceService::NewStub(worker_.Connect());
};

TEST_F(TokenizeTest, TheLongestTextOfShortTokensComesBack) {
  v1::TokenizeRequest request;
  for (size_t i = 0; i < api::kMaxPromptBytes / 2; ++i) request.mutable_text()->append("\u00e9");
  v1::TokenizeResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub_->Tokenize(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(static_cast<size_t>(response.token_ids_size()), api::kMaxPromptBytes);

  request.mutable_text()->append("x");
  grpc::ClientContext again;
  EXPECT_EQ(stub_->Tokenize(&again, request, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(TokenizeTest, IdsOfMoreTextThanAMessageHoldsAreRefused) {
  const TokenId longest = worker_.tokenizer().Encode(std::string(256, 'a')).at(0);
  const int fits = static_cast<int>(api::kMaxDetokenizedBytes / 256);
  v1::DetokenizeRequest request;
  request.mutable_token_ids()->Resize(fits, longest);
  v1::DetokenizeResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->Detokenize(&context, request, &response).ok());
  EXPECT_EQ(response.text(), std::string(api::kMaxDetokenizedBytes, 'a'));

  request.add_token_ids(longest);
  grpc::ClientContext again;
  EXPECT_EQ(stub_->Detokenize(&again, request, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace qanat::service
