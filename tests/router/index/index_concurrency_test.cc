#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "router/index/index.h"

namespace qanat::router {
namespace {

using hash::BlockHash;

constexpr int kWorkers = 7;  // so many share a block that sets are made and unmade
constexpr int kChains = 12;
constexpr int kDepth = 48;

std::vector<BlockHash> Chain(int chain, int depth) {
  std::vector<BlockHash> blocks;
  for (int d = 0; d < depth; ++d) blocks.push_back(hash::Mix(static_cast<uint64_t>(chain * 1000 + d)));
  return blocks;
}

struct Worker {
  std::atomic<HolderId> holder;
  std::atomic<int> renewals{0};
};

HolderId Begin(Index& index) {
  const HolderId id = index.Open(10'000);
  index.Add(id, Chain(kChains - 1, kDepth / 2));
  return id;
}

// One worker's link: stores and removes tails of chains, and now and then begins anew. Of the last chain
// it has the first half at all times.
void Write(Index& index, Worker& worker, uint32_t seed, int steps) {
  std::mt19937 random(seed);
  std::vector<int> depths(kChains, 0);
  depths.back() = kDepth / 2;
  HolderId id = worker.holder;
  for (int step = 0; step < steps; ++step) {
    const int chain = static_cast<int>(random() % kChains);
    const int least = chain == kChains - 1 ? kDepth / 2 : 0;
    const int depth = least + static_cast<int>(random() % static_cast<uint32_t>(kDepth - least));
    std::vector<BlockHash> blocks = Chain(chain, std::max(depth, depths[chain]));
    blocks.erase(blocks.begin(), blocks.begin() + std::min(depth, depths[chain]));
    if (depth > depths[chain]) {
      EXPECT_EQ(index.Add(id, blocks), blocks.size());
    } else {
      std::reverse(blocks.begin(), blocks.end());
      EXPECT_EQ(index.Remove(id, blocks), blocks.size());
    }
    depths[chain] = depth;
    if (random() % 50 != 0) continue;
    std::fill(depths.begin(), depths.end(), 0);
    depths.back() = kDepth / 2;
    const HolderId old = std::exchange(id, Begin(index));
    worker.holder = id;
    ++worker.renewals;
    index.Close(old);
  }
}

TEST(IndexConcurrencyTest, ReadersSeeWhatIsThereWhileWritersChangeTheRest) {
  Index index;
  std::vector<Worker> workers(kWorkers);
  for (Worker& worker : workers) worker.holder = Begin(index);
  const HolderId fixed = index.Open(10'000);
  for (int chain = 0; chain < kChains; ++chain) index.Add(fixed, Chain(chain, kDepth / 3 + chain));

  std::atomic<int> writing{kWorkers};
  std::vector<std::thread> threads;
  for (int i = 0; i < kWorkers; ++i) {
    threads.emplace_back([&, i] {
      Write(index, workers[i], static_cast<uint32_t>(i), 1500);
      --writing;
    });
  }
  for (int reader = 0; reader < 2; ++reader) {
    threads.emplace_back([&, reader] {
      std::mt19937 random(static_cast<uint32_t>(100 + reader));
      while (writing > 0) {
        std::vector<int> renewals;
        std::vector<HolderId> holders;
        for (Worker& worker : workers) {
          renewals.push_back(worker.renewals);
          holders.push_back(worker.holder);
        }
        holders.push_back(fixed);
        std::vector<int32_t> depths(holders.size());
        const int chain = static_cast<int>(random() % kChains);
        index.Match(Chain(chain, kDepth), holders, absl::MakeSpan(depths));
        ASSERT_EQ(depths.back(), kDepth / 3 + chain);
        if (chain < kChains - 1) continue;
        for (int i = 0; i < kWorkers; ++i) {
          ASSERT_TRUE(depths[i] >= kDepth / 2 || workers[i].renewals != renewals[i]) << depths[i];
        }
      }
    });
  }
  threads.emplace_back([&] {
    while (writing > 0) index.Sweep(64);
  });
  for (std::thread& thread : threads) thread.join();

  for (Worker& worker : workers) index.Close(worker.holder);
  while (!index.Sweep(1000)) {
  }
  index.CheckInvariants();
  EXPECT_EQ(index.Stats().distinct_blocks, index.Residency(fixed).resident_count);
}

}  // namespace
}  // namespace qanat::router
