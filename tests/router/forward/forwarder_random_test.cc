#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "gtest/gtest.h"
#include "tests/router/forward/forward_fixture.h"

namespace qanat::router {
namespace {

class ForwarderRandomTest : public ForwardFixture {
 protected:
  struct Caller {
    std::shared_ptr<RecordingStreamSink> sink;
    std::shared_ptr<ForwardedStream> stream;
  };

  Caller Start() {
    auto sink = std::make_shared<RecordingStreamSink>();
    auto stream = forwarder_.Start(MakeRequest(), sink);
    return {std::move(sink), std::move(stream)};
  }

  // One random thing happens to a random call of a random worker.
  void Disturb(std::mt19937& random) {
    fakes::FakeWorkerLink& link = *links_[random() % links_.size()];
    if (random() % 50 == 0) {
      link.Break();
      ASSERT_TRUE(link.BecomeReady(ready_).ok());
      return;
    }
    const std::vector<CallId> ids = link.Ids();
    if (ids.empty()) return;
    const CallId id = ids[random() % ids.size()];
    if (link.At(id).cancelled) return link.End(id, absl::CancelledError("cancelled"));
    switch (random() % 6) {
      case 0:
        return link.Accept(id);
      case 1:
        return link.End(id, absl::OkStatus());
      case 2:
        return link.End(id, WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL"));
      default:
        return link.Respond(id, News(0, 1));
    }
  }

  // Whatever is still open ends.
  void EndAll() {
    for (fakes::FakeWorkerLink* link : links_) {
      while (!link->Ids().empty()) link->End(link->Ids().front(), absl::OkStatus());
    }
  }
};

// The ledger is the workers' own list of open calls, at every moment.
TEST_F(ForwarderRandomTest, TheLedgerIsWhatTheWorkersHave) {
  AddWorkers(3);
  std::mt19937 random(23);
  std::vector<Caller> callers;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 6 == 0) callers.push_back(Start());
    if (random() % 20 == 0 && !callers.empty()) callers[random() % callers.size()].stream->Cancel();
    Disturb(random);
    for (size_t i = 0; i < links_.size(); ++i) {
      ASSERT_EQ(InFlight(i), static_cast<int>(links_[i]->Ids().size()))
          << "worker " << i << " at step " << step;
    }
  }
  // An attempt of one worker may move to the next while all end.
  for (int i = 0; i < 3; ++i) EndAll();
  for (const Caller& caller : callers) ASSERT_EQ(caller.sink->ends().size(), 1u);
  for (size_t i = 0; i < links_.size(); ++i) EXPECT_EQ(InFlight(i), 0);
}

// Half of the calls are cancelled while others end them: none is counted for ever, none ends twice.
TEST_F(ForwarderRandomTest, ManyThreadsLeaveTheLedgerAtZero) {
  AddWorkers(3);
  std::vector<std::vector<Caller>> callers(3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([this, t, &callers] {
      std::mt19937 random(t);
      for (int i = 0; i < 300; ++i) {
        callers[t].push_back(Start());
        if (random() % 2 == 0) callers[t][random() % callers[t].size()].stream->Cancel();
      }
    });
  }
  // One thread plays all workers, as each link calls its sinks from one thread at a time.
  std::mt19937 random(99);
  for (int step = 0; step < 20000; ++step) Disturb(random);
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 3; ++i) EndAll();
  for (const auto& mine : callers) {
    for (const Caller& caller : mine) ASSERT_EQ(caller.sink->ends().size(), 1u);
  }
  for (size_t i = 0; i < links_.size(); ++i) EXPECT_EQ(InFlight(i), 0);
}

// Equal work, half of it cancelled at random: neither worker gets more than its share.
TEST_F(ForwarderRandomTest, TwoWorkersShareEqualWorkWithCancellations) {
  AddWorkers(2);
  std::mt19937 random(7);
  std::vector<Caller> callers;
  for (int i = 0; i < 200; ++i) {
    callers.push_back(Start());
    if (i % 2 == 0) callers[random() % callers.size()].stream->Cancel();
    // Two steps of work a request, so that some are open at any time.
    for (int step = 0; step < 2; ++step) {
      for (fakes::FakeWorkerLink* link : links_) {
        const std::vector<CallId> ids = link->Ids();
        if (ids.empty() || random() % 2 == 0) continue;
        const bool cancelled = link->At(ids.front()).cancelled;
        link->End(ids.front(), cancelled ? absl::CancelledError("cancelled") : absl::OkStatus());
      }
    }
  }
  EndAll();
  int first = 0;
  for (const std::string& worker : metrics_.dispatches()) first += worker == "w0" ? 1 : 0;
  EXPECT_GE(first, 80);
  EXPECT_LE(first, 120);
  EXPECT_EQ(InFlight(0), 0);
  EXPECT_EQ(InFlight(1), 0);
}

}  // namespace
}  // namespace qanat::router
