#include "router/admission/admission.h"

#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qanat::router {
namespace {

using testing::HasSubstr;

AdmissionOptions Limits(int64_t requests, int64_t tokens, int64_t bytes) {
  AdmissionOptions options;
  options.queue_requests = requests;
  options.queue_tokens = tokens;
  options.queue_bytes = bytes;
  return options;
}

void ExpectRefused(const absl::Status& status, const std::string& reason) {
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(ReasonOf(status), reason);
  EXPECT_TRUE(RetryAfterOf(status).has_value());
}

TEST(AdmissionTest, LetsInUpToTheBoundAndAgainAfterOneLeft) {
  Admission admission(Limits(2, 100, 100));
  auto first = admission.Enter(1);
  auto second = admission.Enter(1);
  ASSERT_TRUE(first.ok() && second.ok());
  ExpectRefused(admission.Enter(1).status(), "QUEUE_FULL");
  { const Admission::Ticket leaving = *std::move(first); }
  EXPECT_TRUE(admission.Enter(1).ok());
}

TEST(AdmissionTest, BoundsTheBytes) {
  Admission admission(Limits(10, 100, 100));
  auto first = admission.Enter(60);
  ASSERT_TRUE(first.ok());
  ExpectRefused(admission.Enter(41).status(), "BYTES_FULL");
  EXPECT_TRUE(admission.Enter(40).ok());
}

TEST(AdmissionTest, BoundsTheTokensAndARefusalTakesNone) {
  Admission admission(Limits(10, 100, 100));
  auto first = admission.Enter(1);
  auto second = admission.Enter(1);
  ASSERT_TRUE(first->AddTokens(60).ok());
  ExpectRefused(second->AddTokens(41), "TOKENS_FULL");
  EXPECT_EQ(admission.usage().tokens, 60);
  EXPECT_TRUE(second->AddTokens(40).ok());
}

TEST(AdmissionTest, WhenClosedItLetsNobodyInButKeepsThoseWhoAre) {
  Admission admission(Limits(10, 100, 100));
  auto first = admission.Enter(1);
  ASSERT_TRUE(first.ok());
  admission.Close();
  const absl::Status refused = admission.Enter(1).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_EQ(ReasonOf(refused), "DRAINING");
  EXPECT_TRUE(RetryAfterOf(refused).has_value());
  EXPECT_TRUE(first->AddTokens(1).ok());
  EXPECT_EQ(admission.usage().requests, 1);
}

TEST(AdmissionTest, ValidateNamesTheFlagThatIsNotPositive) {
  EXPECT_TRUE(AdmissionOptions().Validate().ok());
  EXPECT_THAT(std::string(Limits(0, 1, 1).Validate().message()), HasSubstr("--queue-requests"));
  EXPECT_THAT(std::string(Limits(1, -1, 1).Validate().message()), HasSubstr("--queue-tokens"));
  EXPECT_THAT(std::string(Limits(1, 1, 0).Validate().message()), HasSubstr("--queue-bytes"));
}

// The counts are those of a list of what is open, whatever comes, moves and goes.
TEST(AdmissionTest, CountsAsANaiveTwinDoes) {
  struct Open {
    Admission::Ticket ticket;
    int64_t bytes;
    int64_t tokens;
  };
  Admission admission(Limits(8, 200, 300));
  std::vector<Open> open;
  std::mt19937 random(11);
  for (int step = 0; step < 20000; ++step) {
    Admission::Usage twin;
    for (const Open& one : open) {
      ++twin.requests;
      twin.bytes += one.bytes;
      twin.tokens += one.tokens;
    }
    ASSERT_EQ(admission.usage().requests, twin.requests);
    ASSERT_EQ(admission.usage().bytes, twin.bytes);
    ASSERT_EQ(admission.usage().tokens, twin.tokens);
    const auto amount = static_cast<int64_t>(random() % 100);
    const size_t which = open.empty() ? 0 : random() % open.size();
    switch (random() % 3) {
      case 0: {
        auto ticket = admission.Enter(amount);
        ASSERT_EQ(ticket.ok(), twin.requests < 8 && twin.bytes + amount <= 300);
        if (ticket.ok()) open.push_back({*std::move(ticket), amount, 0});
        break;
      }
      case 1:
        if (open.empty()) break;
        ASSERT_EQ(open[which].ticket.AddTokens(amount).ok(), twin.tokens + amount <= 200);
        if (twin.tokens + amount <= 200) open[which].tokens += amount;
        break;
      case 2:
        if (open.empty()) break;
        std::swap(open[which], open.back());
        open.pop_back();
        break;
    }
  }
}

}  // namespace
}  // namespace qanat::router
