// The small language of the scheduler's tests: sequences, steps, and a pool that a test fills at will.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fakes/recording_sink.h"
#include "tests/worker/engine/engine_fixture.h"
#include "worker/engine/scheduler.h"

namespace qanat::engine {

class SchedulerTest : public testing::Test {
 protected:
  // Blocks of 4; every test that sets options does so before the first call of anything else.
  SchedulerTest() { options_.speculation = false; }

  EngineOptions options_ = SmallOptions();

  struct Spec {
    int prompt = 1;
    TokenId first = -1;  // of a prompt of consecutive ids; -1: unlike any other
    int max_tokens = 100;
    Priority priority = Priority::kStandard;
    std::optional<Time> deadline = {};
    bool bypass = false;
    std::vector<TokenId> tail = {};  // behind the prompt's consecutive ids
  };

  ~SchedulerTest() override {
    for (const auto& sequence : sequences_) {
      if (sequence->state() != Sequence::State::kEnded) Remove(*sequence);
    }
  }

  kv::KvManager& kv() {
    if (kv_ == nullptr) {
      kv_ = std::make_unique<kv::KvManager>(options_.num_blocks, options_.prefix_cache,
                                            hash::BlockHasher(hash::kPublicKey, "model", options_.block_size),
                                            options_.kv_layout);
      scheduler_ = std::make_unique<Scheduler>(options_, *kv_);
    }
    return *kv_;
  }
  Scheduler& scheduler() {
    kv();
    return *scheduler_;
  }

  Sequence& Add(const Spec& spec) {
    unlike_ += 1000;
    Request request;
    request.prompt = EngineRig::Prompt(spec.prompt, spec.first < 0 ? unlike_ : spec.first);
    request.prompt.insert(request.prompt.end(), spec.tail.begin(), spec.tail.end());
    request.max_tokens = spec.max_tokens;
    request.priority = spec.priority;
    request.deadline = spec.deadline;
    request.sink = std::make_shared<fakes::RecordingSink>();
    request.bypass_prefix_cache = spec.bypass;
    const SequenceId id{sequences_.size() + 1};
    now_ += std::chrono::milliseconds(1);
    sequences_.push_back(
        std::make_unique<Sequence>(id, std::move(request), now_, options_, kv().NewTable(hash::Namespace{})));
    scheduler().Add(*sequences_.back());
    return *sequences_.back();
  }
  Sequence& AddPrompt(int prompt) {
    Spec spec;
    spec.prompt = prompt;
    return Add(spec);
  }

  // Plans a step; Commit carries it out. Every drawn token is kDrawn.
  static constexpr TokenId kDrawn = 7;
  StepPlan Plan() { return scheduler().Plan(now_, model_); }
  void Commit(const StepPlan& plan) {
    scheduler().Launch(plan, false);
    for (const PlannedRow& row : scheduler().Collect().rows) {
      if (row.sequence == nullptr) continue;
      scheduler().Commit(row);
      if (row.draws && row.sequence->Append(kDrawn, now_).has_value()) Remove(*row.sequence);
    }
    if (ballast_ == nullptr) scheduler().CheckInvariants();
  }
  StepPlan Step() {
    StepPlan plan = Plan();
    Commit(plan);
    return plan;
  }
  // Steps until everything that runs needs one token only.
  void RunToDecode() {
    do {
      Step();
    } while (std::any_of(scheduler().running().begin(), scheduler().running().end(),
                         [](const Sequence* sequence) { return sequence->num_missing() > 1; }));
  }
  void Remove(Sequence& sequence) {
    scheduler().Remove(sequence);
    sequence.End(EndReason::kCancelled, absl::CancelledError(), now_);
  }

  // Takes blocks so that `blocks` are left in the free list.
  void LeaveFree(int32_t blocks) {
    FreeBallast();
    ballast_ = std::make_unique<kv::BlockTable>(kv().NewTable(hash::Namespace{}));
    const int32_t take = kv().pool().num_unreferenced() - blocks;
    ASSERT_GE(take, 0);
    ASSERT_TRUE(kv().Reserve(*ballast_, take * options_.block_size));
  }
  void FreeBallast() { ballast_.reset(); }

  static bool Runs(const Sequence& sequence) { return sequence.state() == Sequence::State::kRunning; }
  static int32_t TokensOf(const StepPlan& plan, const Sequence& sequence) {
    for (const PlannedRow& row : plan.rows) {
      if (row.sequence == &sequence) return row.num_tokens;
    }
    return 0;
  }
  static int32_t TotalTokens(const StepPlan& plan) {
    int32_t total = 0;
    for (const PlannedRow& row : plan.rows) total += row.num_tokens;
    return total;
  }

  Time now_{std::chrono::hours(1)};
  StepModel model_;

 private:
  std::unique_ptr<kv::KvManager> kv_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::unique_ptr<kv::BlockTable> ballast_;
  TokenId unlike_ = 10000;
};

}  // namespace qanat::engine
