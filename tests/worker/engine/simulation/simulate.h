// Runs a history: a real engine, a fake model, a virtual clock, one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tests/worker/engine/simulation/history.h"
#include "worker/engine/model_runner.h"

namespace qanat::engine::simulation {

// What happened, to see that histories are not tame. Adds up.
struct Tally {
  int64_t steps = 0;
  int64_t preemptions = 0;
  int64_t hit_tokens = 0;
  int64_t evictions = 0;
  int64_t pauses = 0;
  int64_t refused = 0;  // since their deadlines could not be met
  int64_t accepted_drafts = 0;
  int64_t rejected_drafts = 0;
  int64_t pending_reads = 0;  // rows that read what a step in flight was still to compute
  int64_t padding = 0;        // rows computed for those who had ended
  int64_t complete = 0;       // answers
  int64_t broken_off = 0;     // answers
  int64_t failed = 0;         // of these, by a row that failed
  int64_t late = 0;           // of these, by their deadlines
  int32_t most_preemptions = 0;
  uint64_t trace = 0;  // of everything that sinks were told and when: equal histories, equal traces

  void Add(const Tally& other);
};

// A line of words.
std::string Describe(const Tally& tally);

// The device of a simulation; FakeModelRunner unless a test plants a fault in it.
using RunnerWrapper = std::function<std::unique_ptr<ModelRunner>(ModelRunner& fake)>;

// Checks after every step that the engine's invariants hold and that pending work moved; at the end that each
// answer is what the request gets alone in the world, or a beginning of it that was broken off for a reason
// that the history has, and that nothing is held. A violation ends the process with a message. `wrap` may put
// a runner between engine and model.
Tally Simulate(const History& history, const RunnerWrapper& wrap = {});

}  // namespace qanat::engine::simulation
