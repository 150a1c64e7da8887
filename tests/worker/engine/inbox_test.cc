#include "worker/engine/inbox.h"

#include <thread>

#include "gtest/gtest.h"

namespace qanat::engine {
namespace {

TEST(InboxTest, TakeGivesAllInOrderAndLeavesNothing) {
  Inbox inbox;
  inbox.Put(Submission{SequenceId{1}, {}, {}});
  inbox.Put(Submission{SequenceId{2}, {}, {}});
  inbox.Put(Cancellation{SequenceId{1}, EndReason::kStop});
  const Mail mail = inbox.Take();
  ASSERT_EQ(mail.submissions.size(), 2u);
  EXPECT_EQ(mail.submissions[0].id, SequenceId{1});
  EXPECT_EQ(mail.submissions[1].id, SequenceId{2});
  ASSERT_EQ(mail.cancellations.size(), 1u);
  EXPECT_EQ(mail.cancellations[0].reason, EndReason::kStop);
  EXPECT_TRUE(inbox.Take().empty());
}

TEST(InboxTest, MailWakesWhoWaits) {
  Inbox inbox;
  std::thread waiter([&inbox] {
    EXPECT_TRUE(inbox.Wait(std::nullopt));
    EXPECT_EQ(inbox.Take().cancellations.size(), 1u);
  });
  inbox.Put(Cancellation{SequenceId{1}, EndReason::kCancelled});
  waiter.join();
}

TEST(InboxTest, ClosingWakesWhoWaitsForGood) {
  Inbox inbox;
  std::thread waiter([&inbox] { EXPECT_FALSE(inbox.Wait(std::nullopt)); });
  inbox.Close();
  waiter.join();
  EXPECT_TRUE(inbox.closed());
  EXPECT_FALSE(inbox.Wait(std::nullopt));
}

TEST(InboxTest, ATimeoutEndsTheWait) {
  Inbox inbox;
  EXPECT_TRUE(inbox.Wait(std::chrono::milliseconds(1)));
  EXPECT_TRUE(inbox.Take().empty());
}

}  // namespace
}  // namespace qanat::engine
