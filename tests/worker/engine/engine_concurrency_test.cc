// Many threads at the door while the engine runs. TSan is the judge of most of it.
#include <random>
#include <thread>
#include <vector>

#include "common/base/error.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/engine_fixture.h"

namespace qanat::engine {
namespace {

// One caller: submits, cancels some, and waits for its answers where the queue is full.
class Caller {
 public:
  Caller(EngineRig& rig, uint32_t seed) : rig_(rig), random_(seed) {}

  void Run() {
    while (requests_.size() < 60) {
      Request request =
          EngineRig::MakeRequest(EngineRig::Prompt(1 + Below(30), 100 * Below(3)), 1 + Below(20));
      request.seed = random_();
      const absl::StatusOr<Accepted> accepted = rig_.engine->Submit(request);
      if (!accepted.ok()) {
        ASSERT_EQ(accepted.status().code(), absl::StatusCode::kResourceExhausted) << accepted.status();
        if (!requests_.empty()) EngineRig::SinkOf(requests_.back()).WaitForEnd();
        std::this_thread::yield();
        continue;
      }
      requests_.push_back(request);
      if (Below(4) == 0) rig_.engine->Cancel(accepted->id, EndReason::kCancelled);
      const EngineSnapshot snapshot = rig_.engine->Snapshot();
      ASSERT_GE(snapshot.load_version, accepted->load_version);
      ASSERT_GE(snapshot.waiting_tokens, 0);
      ASSERT_EQ(snapshot.free_blocks + snapshot.cached_blocks + snapshot.referenced_blocks,
                snapshot.total_blocks);
    }
    for (const Request& request : requests_) EngineRig::SinkOf(request).WaitForEnd();
  }

  void CheckAnswers() const {
    for (const Request& request : requests_) {
      std::vector<TokenId> answer = rig_.Answer(request);
      if (EngineRig::SinkOf(request).outcome().reason == EndReason::kCancelled) {
        answer.resize(EngineRig::SinkOf(request).tokens().size());
      }
      ASSERT_EQ(EngineRig::SinkOf(request).tokens(), answer);
    }
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  EngineRig& rig_;
  std::mt19937 random_;
  std::vector<Request> requests_;
};

TEST(EngineConcurrencyTest, EveryThreadGetsItsAnswers) {
  EngineOptions options = SmallOptions();
  options.num_blocks = 30;
  options.context_length = 64;
  options.queue_requests = 6;
  EngineRig rig(options);
  std::thread engine_thread([&rig] {
    while (rig.engine->WaitForWork()) rig.Step();
  });
  std::vector<Caller> callers;
  for (uint32_t i = 0; i < 4; ++i) callers.emplace_back(rig, i);
  std::vector<std::thread> threads;
  for (Caller& caller : callers) threads.emplace_back([&caller] { caller.Run(); });
  for (std::thread& thread : threads) thread.join();
  const EngineSnapshot snapshot = rig.engine->Snapshot();
  EXPECT_EQ(snapshot.running + snapshot.waiting, 0);
  EXPECT_EQ(snapshot.referenced_blocks, 0);
  rig.engine->Shutdown();
  engine_thread.join();
  for (const Caller& caller : callers) caller.CheckAnswers();
}

}  // namespace
}  // namespace qanat::engine
