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
    const LoadLedger::Entry entry = ledger.Take(WorkerId{0});
    EXPECT_EQ(ledger.Loads()[0].in_flight, 1);
  }
  EXPECT_EQ(ledger.Loads()[0].in_flight, 0);
}

TEST(LoadLedgerTest, AMovedEntryCountsOnce) {
  LoadLedger ledger;
  ledger.AddWorker();
  ledger.AddWorker();
  LoadLedger::Entry first = ledger.Take(WorkerId{0});
  LoadLedger::Entry second = std::move(first);
  EXPECT_EQ(ledger.Loads()[0].in_flight, 1);
  {
    LoadLedger::Entry other = ledger.Take(WorkerId{1});
    second = std::move(other);
  }
  EXPECT_EQ(ledger.Loads()[0].in_flight, 0);
  EXPECT_EQ(ledger.Loads()[1].in_flight, 1);
}

TEST(LoadLedgerTest, RemembersTheOrderOfUse) {
  LoadLedger ledger;
  for (int i = 0; i < 3; ++i) ledger.AddWorker();
  for (const uint16_t worker : {1, 0, 2, 1}) {
    const LoadLedger::Entry entry = ledger.Take(WorkerId{worker});
  }
  const std::vector<WorkerLoad> loads = ledger.Loads();
  EXPECT_LT(loads[0].last_dispatch, loads[2].last_dispatch);
  EXPECT_LT(loads[2].last_dispatch, loads[1].last_dispatch);
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
      open.emplace_back(ledger.Take(WorkerId{worker}), worker);
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
        open.push_back(ledger.Take(WorkerId{static_cast<uint16_t>(random() % 2)}));
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
