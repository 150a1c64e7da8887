#include "router/index/pending_credits.h"

#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace qanat::router {
namespace {

using hash::BlockHash;
using Hashes = std::vector<BlockHash>;

constexpr WorkerId kA{0};
constexpr WorkerId kB{1};

Hashes Range(BlockHash first, size_t count) {
  Hashes hashes(count);
  for (size_t i = 0; i < count; ++i) hashes[i] = first + i;
  return hashes;
}

TEST(PendingCreditsTest, ExtendTheDepthOfTheirWorkerOnly) {
  PendingCredits credits;
  const Hashes prompt = Range(0, 50);
  const auto guard = credits.Credit(kA, Range(10, 25));
  EXPECT_EQ(credits.Extend(kA, prompt, 10), 35);
  EXPECT_EQ(credits.Extend(kA, prompt, 20), 35);
  EXPECT_EQ(credits.Extend(kA, prompt, 9), 9) << "the block between is not on its way";
  EXPECT_EQ(credits.Extend(kA, prompt, 35), 35);
  EXPECT_EQ(credits.Extend(kA, prompt, 50), 50);
  EXPECT_EQ(credits.Extend(kB, prompt, 10), 10);
}

TEST(PendingCreditsTest, EveryDepthIsFound) {
  for (size_t count = 0; count < 40; ++count) {
    PendingCredits credits;
    const auto guard = credits.Credit(kA, Range(0, count));
    for (size_t length = 0; length < 40; ++length) {
      EXPECT_EQ(credits.Extend(kA, Range(0, length), 0), static_cast<int32_t>(std::min(count, length)));
    }
  }
}

TEST(PendingCreditsTest, ABlockCountsUntilItsLastGuardIsGone) {
  PendingCredits credits;
  auto first = credits.Credit(kA, Range(0, 10));
  auto second = credits.Credit(kA, Range(0, 6));
  first = {};
  EXPECT_EQ(credits.Extend(kA, Range(0, 10), 0), 6);
  PendingCredits::Guard moved = std::move(second);
  EXPECT_EQ(credits.Extend(kA, Range(0, 10), 0), 6);
  moved = PendingCredits::Guard();
  EXPECT_EQ(credits.entries(), 0);
}

TEST(PendingCreditsTest, WhatExceedsTheBoundIsNotCredited) {
  PendingCredits credits(160);
  {
    const auto guard = credits.Credit(kA, Range(0, 1000));
    const int64_t entries = credits.entries();
    EXPECT_LE(entries, 160);
    EXPECT_EQ(credits.refused(), 1000 - entries);
    EXPECT_EQ(credits.Extend(kA, Range(0, 1000), 0), entries);
    const auto again = credits.Credit(kA, Range(0, static_cast<size_t>(entries)));
    EXPECT_EQ(credits.entries(), entries) << "counting once more needs no room";
    EXPECT_EQ(credits.refused(), 1000 - entries);
  }
  EXPECT_EQ(credits.entries(), 0);
}

TEST(PendingCreditsTest, AgreeWithANaiveTwin) {
  PendingCredits credits;
  std::mt19937 random(9);
  std::vector<std::pair<PendingCredits::Guard, std::pair<WorkerId, Hashes>>> guards;
  std::map<std::pair<WorkerId, BlockHash>, int> twin;
  for (int step = 0; step < 5000; ++step) {
    const WorkerId worker = random() % 2 == 0 ? kA : kB;
    const BlockHash chain = random() % 4 * 100;
    if (random() % 2 == 0) {
      const Hashes blocks = Range(chain, random() % 30);
      for (BlockHash block : blocks) ++twin[{worker, block}];
      guards.emplace_back(credits.Credit(worker, blocks), std::pair(worker, blocks));
    } else if (!guards.empty()) {
      std::swap(guards[random() % guards.size()], guards.back());
      for (BlockHash block : guards.back().second.second) {
        const auto found = twin.find({guards.back().second.first, block});
        if (--found->second == 0) twin.erase(found);
      }
      guards.pop_back();
    }
    const Hashes prompt = Range(chain, random() % 40);
    int32_t depth = 0;
    while (depth < static_cast<int32_t>(prompt.size()) && twin.count({worker, prompt[depth]}) > 0) ++depth;
    ASSERT_EQ(credits.Extend(worker, prompt, 0), depth);
    ASSERT_EQ(credits.entries(), static_cast<int64_t>(twin.size()));
  }
}

TEST(PendingCreditsTest, ManyThreadsLeaveNothingBehind) {
  PendingCredits credits(1000);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&credits, i] {
      const WorkerId worker{static_cast<uint16_t>(i % 2)};
      for (int round = 0; round < 200; ++round) {
        const auto guard = credits.Credit(worker, Range(0, 100));
        EXPECT_GE(credits.Extend(worker, Range(0, 100), 0), 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(credits.entries(), 0);
}

}  // namespace
}  // namespace qanat::router
