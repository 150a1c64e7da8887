// A16: with several tokens in one message each has its own log-probabilities, the same as in a message for
// all, and as many as there are tokens, also where a stop string holds text back.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/service/generate_fixture.h"

namespace qanat::service {
namespace {

class A16LogprobsInStreamsTest : public GenerateFixture {
 protected:
  struct Entry {
    TokenId id;
    float logprob;
    std::vector<std::pair<TokenId, float>> alternatives;

    bool operator==(const Entry&) const = default;
  };

  std::vector<Entry> Entries(const Heard& heard) {
    std::vector<Entry> all;
    for (const auto& message : heard.messages) {
      for (const auto& logprob : message.logprobs()) {
        Entry& entry = all.emplace_back(Entry{logprob.token_id(), logprob.logprob(), {}});
        for (const auto& other : logprob.alternatives()) {
          entry.alternatives.emplace_back(other.token_id(), other.logprob());
        }
      }
    }
    return all;
  }
};

TEST_F(A16LogprobsInStreamsTest, EachTokenHasItsOwn) {
  for (const char* stop : {"never", "abcx", "gh", "cde"}) {
    Script("abcabcdefgh");
    v1::GenerateRequest request = Request();
    request.mutable_output()->set_logprobs(3);
    request.mutable_stopping()->add_stop(stop);
    // The engine runs ahead while the first message waits, so that later ones cover many tokens.
    const Heard stream = Generate(request);
    request.mutable_output()->set_delivery(v1::DELIVERY_FINAL_ONLY);
    const Heard whole = Generate(request);
    ASSERT_TRUE(stream.status.ok() && whole.status.ok());
    const std::vector<Entry> entries = Entries(stream);
    EXPECT_EQ(entries, Entries(whole));
    ASSERT_EQ(static_cast<int>(entries.size()), stream.last().usage().completion_tokens());
    for (size_t i = 0; i < entries.size(); ++i) {
      EXPECT_EQ(entries[i].id, stream.ids()[i]);
      EXPECT_EQ(entries[i].logprob, ScriptedRunner::LogprobAt(static_cast<uint32_t>(i)));
      ASSERT_EQ(entries[i].alternatives.size(), 3u);
      EXPECT_EQ(entries[i].alternatives[0], std::pair(entries[i].id, entries[i].logprob));
      EXPECT_GE(entries[i].alternatives[0].second, entries[i].alternatives[1].second);
      EXPECT_LE(entries[i].alternatives[0].second, 0);
    }
  }
}

}  // namespace
}  // namespace qanat::service
