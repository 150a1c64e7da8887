// A07: an answer that ends inside a character is one U+FFFD at the very end, streamed or not; its bytes are
// in the log-probabilities, and the server lives on.
#include "common/text/utf8.h"
#include "gtest/gtest.h"
#include "tests/worker/service/generate_fixture.h"

namespace qanat::service {
namespace {

using A07UnfinishedCharacterTest = GenerateFixture;

TEST_F(A07UnfinishedCharacterTest, IsTheSameStreamedOrNot) {
  for (const char lead : {'\xF0', '\x94', '\xC3'}) {
    runner_.SetScript(kSeed, Bytes(std::string(1, lead)));
    for (const auto delivery : {v1::DELIVERY_DELTAS, v1::DELIVERY_FINAL_ONLY}) {
      v1::GenerateRequest request = Request(1);
      request.mutable_output()->set_logprobs(0);
      request.mutable_output()->set_delivery(delivery);
      const Heard heard = Generate(request);
      ASSERT_TRUE(heard.status.ok()) << heard.status;
      EXPECT_EQ(heard.text(), text::kReplacement);
      EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_LENGTH);
      EXPECT_EQ(heard.last().usage().completion_tokens(), 1);
      std::string bytes;
      for (const auto& message : heard.messages) {
        for (const auto& logprob : message.logprobs()) bytes += logprob.token();
      }
      EXPECT_EQ(bytes, std::string(1, lead));
    }
  }
}

}  // namespace
}  // namespace qanat::service
