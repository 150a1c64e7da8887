#include "worker/engine/waiting_queue.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>

#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

TEST(WaitingQueueTest, AgreesWithASortedVectorOverRandomOperations) {
  std::mt19937 random(11);
  const EngineOptions options = SmallOptions();
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (uint64_t i = 1; i <= 40; ++i) {
    Request request = EngineRig::MakeRequest(EngineRig::Prompt(1 + static_cast<int>(random() % 9)), 5);
    request.priority = static_cast<Priority>(random() % 3);
    const Time arrival(std::chrono::seconds(random() % 20));
    sequences.push_back(std::make_unique<Sequence>(SequenceId{i}, std::move(request), arrival, options,
                                                   kv::BlockTable({}, 0)));
  }
  WaitingQueue queue;
  std::vector<Sequence*> twin;
  for (int step = 0; step < 5000; ++step) {
    Sequence& sequence = *sequences[random() % sequences.size()];
    const auto it = std::find(twin.begin(), twin.end(), &sequence);
    if (it == twin.end()) {
      if (random() % 2 == 0) {  // it ran in between
        sequence.Admit(0, Time{});
        sequence.Preempt();
      }
      Waiting& place = queue.Add(sequence);
      queue.SetCachedTokens(place, static_cast<int32_t>(random() % 9));
      if (random() % 2 == 0) queue.SetCachedTokens(place, static_cast<int32_t>(random() % 9));
      twin.push_back(&sequence);
    } else {
      queue.Remove(sequence);
      twin.erase(it);
    }
    std::sort(twin.begin(), twin.end(),
              [](const Sequence* a, const Sequence* b) { return a->order() < b->order(); });
    ASSERT_EQ(queue.size(), static_cast<int32_t>(twin.size()));
    size_t i = 0;
    int32_t started = 0;
    int64_t tokens = 0;
    int64_t cached = 0;
    for (const auto& [order, place] : queue) {
      ASSERT_EQ(place.sequence, twin[i++]);
      cached += place.cached_tokens;
      if (!place.sequence->ever_admitted()) continue;
      ++started;
      tokens += place.sequence->num_tokens();
    }
    ASSERT_EQ(queue.num_started(), started);
    ASSERT_EQ(queue.started_tokens(), tokens);
    ASSERT_EQ(queue.cached_tokens(), cached);
  }
}

}  // namespace
}  // namespace qanat::engine
