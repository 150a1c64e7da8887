#include "router/cluster/load_ledger.h"

#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace qanat::router {
namespace {

TEST(LoadLedgerTest, AnEntryCountsWhileItLives) {
  LoadLedger ledger;
  ledger.AddWorker();
  {
    const LoadLedger::Entry entry = ledger.Take(WorkerId{0}, 0);
    EXPECT_EQ(ledger.Loads()[0].in_flight, 1);
  }
  EXPECT_EQ(ledger.Loads()[0].in_flight, 0);
}

TEST(LoadLedgerTest, AMovedEntryCountsOnce) {
  LoadLedger ledger;
  ledger.AddWorker();
  ledger.AddWorker();
  LoadLedger::Entry first = ledger.Take(WorkerId{0}, 0);
  LoadLedger::Entry second = std::move(first);
  EXPECT_EQ(ledger.Loads()[0].in_flight, 1);
  {
    LoadLedger::Entry other = ledger.Take(WorkerId{1}, 0);
    second = std::move(other);
  }
  EXPECT_EQ(ledger.Loads()[0].in_flight, 0);
  EXPECT_EQ(ledger.Loads()[1].in_flight, 1);
}

TEST(LoadLedgerTest, RemembersTheOrderOfUse) {
  LoadLedger ledger;
  for (int i = 0; i < 3; ++i) ledger.AddWorker();
  for (const uint16_t worker : {1, 0, 2, 1}) {
    const LoadLedger::Entry entry = ledger.Take(WorkerId{worker}, 0);
  }
  const std::vector<WorkerLoad> loads = ledger.Loads();
  EXPECT_LT(loads[0].last_dispatch, loads[2].last_dispatch);
  EXPECT_LT(loads[2].last_dispatch, loads[1].last_dispatch);
}

api::Load LoadOf(uint64_t version, int32_t running, int32_t waiting, int64_t waiting_tokens) {
  api::Load load;
  load.load_version = version;
  load.running = running;
  load.waiting = waiting;
  load.waiting_tokens = waiting_tokens;
  return load;
}

class LoadLedgerOfOneTest : public testing::Test {
 protected:
  LoadLedgerOfOneTest() { ledger_.AddWorker(); }
  WorkerLoad load() const { return ledger_.Loads()[0]; }

  LoadLedger ledger_;
};

TEST_F(LoadLedgerOfOneTest, AddsWhatItSentToWhatTheWorkerTold) {
  ledger_.Update(WorkerId{0}, LoadOf(10, 3, 2, 100));
  LoadLedger::Entry entry = ledger_.Take(WorkerId{0}, 40);
  EXPECT_EQ(load().running, 3);
  EXPECT_EQ(load().waiting, 3);
  EXPECT_EQ(load().queued_tokens, 140);
  entry.Accept(12);
  EXPECT_EQ(load().queued_tokens, 140) << "the load of version 10 does not know of it";
  ledger_.Update(WorkerId{0}, LoadOf(11, 3, 2, 100));
  EXPECT_EQ(load().waiting, 3);
  ledger_.Update(WorkerId{0}, LoadOf(12, 4, 2, 100));
  EXPECT_EQ(load().running, 4);
  EXPECT_EQ(load().waiting, 2);
  EXPECT_EQ(load().queued_tokens, 100);
}

TEST_F(LoadLedgerOfOneTest, ALoadMayComeBeforeTheWordThatTheCallIsInIt) {
  LoadLedger::Entry entry = ledger_.Take(WorkerId{0}, 40);
  ledger_.Update(WorkerId{0}, LoadOf(7, 1, 0, 0));
  EXPECT_EQ(load().waiting, 1) << "nobody said yet that version 7 counts it";
  entry.Accept(7);
  EXPECT_EQ(load().waiting, 0);
}

TEST_F(LoadLedgerOfOneTest, ACallThatEndsBeforeAnyLoadLeavesNothing) {
  { LoadLedger::Entry entry = ledger_.Take(WorkerId{0}, 40); }
  EXPECT_EQ(load().waiting, 0);
  EXPECT_EQ(load().queued_tokens, 0);
  EXPECT_EQ(load().in_flight, 0);
}

TEST_F(LoadLedgerOfOneTest, ACallThatEndsIsGoneBeforeTheNextLoadTellsOfIt) {
  LoadLedger::Entry first = ledger_.Take(WorkerId{0}, 40);
  LoadLedger::Entry second = ledger_.Take(WorkerId{0}, 40);
  first.Accept(3);
  second.Accept(4);
  ledger_.Update(WorkerId{0}, LoadOf(4, 2, 0, 0));
  const auto end = [](LoadLedger::Entry entry, uint64_t version) { entry.End(version); };
  end(std::move(first), 6);
  EXPECT_EQ(load().running, 1) << "the load of version 4 counts it";
  ledger_.Update(WorkerId{0}, LoadOf(5, 2, 0, 0));
  EXPECT_EQ(load().running, 1) << "so does that of version 5";
  ledger_.Update(WorkerId{0}, LoadOf(6, 1, 0, 0));
  EXPECT_EQ(load().running, 1);
  // A load may come before the word of the end that it tells of.
  ledger_.Update(WorkerId{0}, LoadOf(7, 0, 0, 0));
  end(std::move(second), 7);
  EXPECT_EQ(load().running, 0);
  ledger_.Update(WorkerId{0}, LoadOf(8, 3, 0, 0));
  EXPECT_EQ(load().running, 3) << "other routers' calls are not taken off";
}

TEST_F(LoadLedgerOfOneTest, EveryChoiceIsASequence) {
  LoadLedger::Entry entry = ledger_.Take(WorkerId{0}, 40, /*choices=*/4);
  EXPECT_EQ(load().in_flight, 1);
  EXPECT_EQ(load().waiting, 4);
  EXPECT_EQ(load().queued_tokens, 40) << "of one prompt";
  entry.Accept(2);
  ledger_.Update(WorkerId{0}, LoadOf(2, 4, 0, 0));
  EXPECT_EQ(load().waiting, 0);
  { const LoadLedger::Entry ended = std::move(entry); }
  EXPECT_EQ(load().running, 0);
}

TEST_F(LoadLedgerOfOneTest, AnOldLoadChangesNothing) {
  ledger_.Update(WorkerId{0}, LoadOf(9, 5, 0, 0));
  ledger_.Update(WorkerId{0}, LoadOf(8, 1, 0, 0));
  EXPECT_EQ(load().running, 5);
}

TEST_F(LoadLedgerOfOneTest, AnotherWorkerInItsPlaceBeginsWithVersionsOfItsOwn) {
  ledger_.Update(WorkerId{0}, LoadOf(900, 5, 0, 0));
  const LoadLedger::Entry entry = ledger_.Take(WorkerId{0}, 40);
  ledger_.Forget(WorkerId{0});
  EXPECT_EQ(load().running, 0);
  EXPECT_EQ(load().in_flight, 1);
  ledger_.Update(WorkerId{0}, LoadOf(1, 2, 0, 0));
  EXPECT_EQ(load().running, 2);
}

// A worker that counts its calls exactly, loads and words of acceptance that come in any order of the two
// streams: what the ledger shows is what the worker has and what is on its way.
TEST_F(LoadLedgerOfOneTest, ShowsWhatTheWorkerHasAndWhatIsOnItsWay) {
  struct Call {
    LoadLedger::Entry entry;
    int64_t tokens;
    uint64_t arrived = 0;  // version
    bool told = false;     // that it was accepted
  };
  std::mt19937 random(5);
  struct Gone {
    int64_t tokens;
    uint64_t arrived, ended;  // versions
    bool known;               // that the latest load counted it, when it ended
  };
  std::vector<Call> calls;
  std::vector<Gone> gone;
  uint64_t version = 0;
  uint64_t seen = 0;  // version of the latest load
  for (int step = 0; step < 20000; ++step) {
    Call* const call = calls.empty() ? nullptr : &calls[random() % calls.size()];
    switch (random() % 5) {
      case 0: {
        const auto tokens = static_cast<int64_t>(random() % 100);
        calls.push_back({.entry = ledger_.Take(WorkerId{0}, tokens), .tokens = tokens});
        break;
      }
      case 1:
        if (call != nullptr && call->arrived == 0) call->arrived = ++version;
        break;
      case 2:
        if (call != nullptr && call->arrived != 0 && !std::exchange(call->told, true)) {
          call->entry.Accept(call->arrived);
        }
        break;
      case 3: {
        if (call == nullptr || call->arrived == 0) break;
        gone.push_back({call->tokens, call->arrived, ++version, call->told && call->arrived <= seen});
        call->entry.End(version);
        calls.erase(calls.begin() + (call - calls.data()));
        break;
      }
      case 4: {
        api::Load load;
        load.load_version = seen = ++version;
        for (const Call& one : calls) {
          load.waiting += one.arrived != 0 ? 1 : 0;
          load.waiting_tokens += one.arrived != 0 ? one.tokens : 0;
        }
        ledger_.Update(WorkerId{0}, load);
        break;
      }
    }
    int64_t waiting = 0;
    int64_t tokens = 0;
    for (const Call& one : calls) {
      // Counted by the worker's last load, and again as long as it is not known to be.
      const int times =
          (one.arrived != 0 && one.arrived <= seen ? 1 : 0) + (one.told && one.arrived <= seen ? 0 : 1);
      waiting += times;
      tokens += times * one.tokens;
    }
    for (const Gone& one : gone) {
      if (one.arrived > seen || one.ended <= seen) continue;  // not in the latest load
      waiting += one.known ? 0 : 1;
      tokens += one.tokens;
    }
    ASSERT_EQ(load().waiting, waiting) << "step " << step;
    ASSERT_EQ(load().queued_tokens, tokens) << "step " << step;
    ASSERT_EQ(load().in_flight, static_cast<int>(calls.size())) << "step " << step;
  }
}

TEST(LoadLedgerTest, CountsAsANaiveTwinDoes) {
  constexpr int kWorkers = 5;
  LoadLedger ledger;
  for (int i = 0; i < kWorkers; ++i) ledger.AddWorker();
  std::vector<std::pair<LoadLedger::Entry, int>> open;
  std::vector<uint64_t> last(kWorkers, 0);
  uint64_t taken = 0;
  std::mt19937 random(3);
  for (int step = 0; step < 20000; ++step) {
    if (open.empty() || random() % 2 == 0) {
      const auto worker = static_cast<uint16_t>(random() % kWorkers);
      open.emplace_back(ledger.Take(WorkerId{worker}, 0), worker);
      last[worker] = ++taken;
    } else {
      std::swap(open[random() % open.size()], open.back());
      open.pop_back();
    }
    std::vector<int> in_flight(kWorkers, 0);
    for (const auto& [entry, worker] : open) ++in_flight[worker];
    const std::vector<WorkerLoad> loads = ledger.Loads();
    for (int i = 0; i < kWorkers; ++i) {
      ASSERT_EQ(loads[i].in_flight, in_flight[i]) << "worker " << i << " at step " << step;
      ASSERT_EQ(loads[i].last_dispatch, last[i]) << "worker " << i << " at step " << step;
    }
  }
}

TEST(LoadLedgerTest, ManyThreadsLeaveItAtZero) {
  LoadLedger ledger;
  for (int i = 0; i < 2; ++i) ledger.AddWorker();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&ledger, t] {
      std::mt19937 random(t);
      std::vector<LoadLedger::Entry> open;
      for (int step = 0; step < 2000; ++step) {
        open.push_back(ledger.Take(WorkerId{static_cast<uint16_t>(random() % 2)}, 0));
        if (open.size() > 10) open.erase(open.begin());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const WorkerLoad& load : ledger.Loads()) {
    EXPECT_EQ(load.in_flight, 0);
    EXPECT_GT(load.last_dispatch, 0u);
  }
}

}  // namespace
}  // namespace qanat::router
