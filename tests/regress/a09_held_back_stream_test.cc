// A09 as a caller sees it: nothing of a stop is sent, held text comes before the end, and what streams is
// what comes in one message, whatever the stops.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/service/generate_fixture.h"

namespace qanat::service {
namespace {

class A09HeldBackStreamTest : public GenerateFixture {
 protected:
  // The tokens are A, B, C, DEF, G ..
  void ScriptTheAlphabet() {
    runner_.SetScript(kSeed, worker_->tokenizer().Encode("ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
  }
  static v1::GenerateRequest WithStops(const std::vector<std::string>& stops, v1::Delivery delivery) {
    v1::GenerateRequest request = Request(12);
    for (const std::string& stop : stops) request.mutable_stopping()->add_stop(stop);
    request.mutable_output()->set_delivery(delivery);
    return request;
  }
};

TEST_F(A09HeldBackStreamTest, NothingOfAStopIsSent) {
  ScriptTheAlphabet();
  const Heard heard = Generate(WithStops({"DEFGHIJ"}, v1::DELIVERY_DELTAS));
  ASSERT_TRUE(heard.status.ok()) << heard.status;
  for (const auto& message : heard.messages) {
    EXPECT_EQ(message.text().find_first_of("DEFGHIJ"), std::string::npos) << message.text();
  }
  EXPECT_EQ(heard.text(), "ABC");
  EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_STOP);
}

TEST_F(A09HeldBackStreamTest, WhatWasHeldBackComesWithTheEnd) {
  ScriptTheAlphabet();
  v1::GenerateRequest request = WithStops({"DEFGHIJ"}, v1::DELIVERY_DELTAS);
  request.mutable_stopping()->set_max_tokens(6);  // up to H
  const Heard heard = Generate(request);
  ASSERT_TRUE(heard.status.ok()) << heard.status;
  EXPECT_EQ(heard.text(), "ABCDEFGH");
  EXPECT_EQ(heard.last().text().substr(heard.last().text().size() - 5), "DEFGH");
  EXPECT_EQ(heard.last().finish().reason(), v1::FINISH_REASON_LENGTH);
}

TEST_F(A09HeldBackStreamTest, WhatStreamsIsWhatComesInOneMessageForAllStops) {
  ScriptTheAlphabet();
  const std::string alphabet = "ABCDEFGHIJKLMN";
  for (size_t first = 0; first < alphabet.size(); ++first) {
    for (size_t size = 1; first + size <= alphabet.size(); ++size) {
      for (const char* tail : {"", "!"}) {
        const std::string stop = alphabet.substr(first, size) + tail;
        const Heard stream = Generate(WithStops({stop, "KLX"}, v1::DELIVERY_DELTAS));
        const Heard whole = Generate(WithStops({stop, "KLX"}, v1::DELIVERY_FINAL_ONLY));
        ASSERT_EQ(stream.text(), whole.text()) << stop;
        ASSERT_EQ(stream.text(), *tail == 0 ? alphabet.substr(0, first) : alphabet) << stop;
      }
    }
  }
}

}  // namespace
}  // namespace qanat::service
