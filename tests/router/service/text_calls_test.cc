#include <future>
#include <string>

#include "common/base/error.h"
#include "gtest/gtest.h"
#include "tests/router/service/service_fixture.h"

namespace qanat::router {
namespace {

class TextCallsTest : public ServiceTest {
 protected:
  absl::Status Tokenize(const v1::TokenizeRequest& request) {
    grpc::ClientContext context;
    return rpc::FromGrpc(stub_->Tokenize(&context, request, &tokens_));
  }
  absl::Status Detokenize(const v1::DetokenizeRequest& request) {
    grpc::ClientContext context;
    return rpc::FromGrpc(stub_->Detokenize(&context, request, &text_));
  }

  std::promise<void> release_;
  v1::TokenizeResponse tokens_;
  v1::DetokenizeResponse text_;
};

TEST_F(TextCallsTest, TokenizesAsTheModelDoes) {
  AddWorker();
  v1::TokenizeRequest request;
  request.set_text("hi");
  ASSERT_TRUE(Tokenize(request).ok());
  ASSERT_EQ(tokens_.token_ids_size(), 2);
  EXPECT_EQ(tokens_.token_ids(0), 5 + 'h');
}

TEST_F(TextCallsTest, DetokenizesBack) {
  AddWorker();
  v1::DetokenizeRequest request;
  for (const char c : std::string("hi")) request.add_token_ids(5 + c);
  ASSERT_TRUE(Detokenize(request).ok());
  EXPECT_EQ(text_.text(), "hi");
}

TEST_F(TextCallsTest, RefusesIdsOutsideTheVocabulary) {
  AddWorker();
  v1::DetokenizeRequest request;
  request.add_token_ids(261);
  const absl::Status status = Detokenize(request);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(FieldOf(status), "token_ids[0]");
}

TEST_F(TextCallsTest, RefusesWhatHasNoInput) {
  AddWorker();
  EXPECT_TRUE(absl::IsInvalidArgument(Tokenize(v1::TokenizeRequest())));
}

// Large texts wait in bytes, and keep nobody out who asks for an answer.
TEST_F(TextCallsTest, BoundsTheBytesThatWaitButNotThoseOfGenerate) {
  AddWorker();
  ASSERT_TRUE(
      text_pool_.TryRun([released = release_.get_future().share()] { released.wait(); }, (1 << 20) - 100));
  v1::TokenizeRequest request;
  request.set_text(std::string(200, 'x'));
  const absl::Status status = Tokenize(request);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(ReasonOf(status), "QUEUE_FULL");
  EXPECT_TRUE(RetryAfterOf(status).has_value());
  EXPECT_TRUE(Generate(Ask(std::string(200, 'x'))).status.ok());
  release_.set_value();
}

TEST_F(TextCallsTest, RefusesWhatIsWrongWithoutWaitingForAThread) {
  AddWorker();
  ASSERT_TRUE(text_pool_.TryRun([released = release_.get_future().share()] { released.wait(); }, 1 << 20));
  v1::TokenizeRequest text;
  text.set_text(std::string(1 << 20, 'x'));
  EXPECT_EQ(FieldOf(Tokenize(text)), "text");
  v1::DetokenizeRequest ids;
  ids.add_token_ids(-1);
  EXPECT_EQ(FieldOf(Detokenize(ids)), "token_ids[0]");
  release_.set_value();
}

TEST_F(TextCallsTest, WithoutAWorkerThereIsNoTokenizer) {
  v1::TokenizeRequest request;
  request.set_text("hi");
  const absl::Status status = Tokenize(request);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(ReasonOf(status), "NO_WORKER");
}

}  // namespace
}  // namespace qanat::router
