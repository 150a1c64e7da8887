// The engine: continuous batching over a paged KV cache.
//
// docs/engine.md tells the story of a step; this header is its public face.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/step_model.h"
#include "common/hash/block_hash.h"
#include "worker/engine/engine_metrics.h"
#include "worker/engine/engine_options.h"
#include "worker/engine/model_runner.h"
#include "worker/engine/request.h"
#include "worker/engine/state_listener.h"

namespace qanat::engine {

// A consistent picture of the engine as of its last step, for metrics, load reports and tests.
struct EngineSnapshot {
  // Grows with every request that comes or ends. All that came up to this version is counted below, but for
  // what ended up to it.
  uint64_t load_version = 0;
  int32_t running = 0;
  int32_t waiting = 0;  // accepted, not running and not paused (inbox included)
  int32_t paused = 0;   // until their readers catch up
  // Of the waiting, known tokens without keys and values that the cache lacked at the last look: all of them
  // until the engine thread has looked, once at arrival and whenever there is a seat.
  int64_t waiting_tokens = 0;
  int64_t prefill_tokens = 0;  // of the running: known, without keys and values yet
  int64_t context_tokens = 0;  // of the running: known
  int32_t total_blocks = 0;
  int32_t free_blocks = 0;        // free and holding nothing of use
  int32_t cached_blocks = 0;      // free, with contents that a request may hit
  int32_t referenced_blocks = 0;  // in some sequence's table
  int32_t table_blocks = 0;       // the same, a block counted once for each table that holds it
  int64_t live_tokens = 0;        // tokens with K and V in referenced blocks
  uint64_t steps = 0;
  bool draining = false;
  StepModel step_model;  // fitted to the steps that ran; all 0 before some did
};

// A request that was accepted.
struct Accepted {
  SequenceId id{};
  uint64_t load_version = 0;  // of the load with this request in it
};

// What: accepts requests, runs them in steps, and tells their sinks. Owns scheduler, KV manager and all
// sequences; `runner`, `clock`, `metrics` and `listener` outlive it. Threads: Submit, Cancel, Resume, Drain,
// Snapshot, PredictedStep and Shutdown from any thread, none of them waits for a step. Step, WaitForWork and
// CheckInvariants from one thread, the engine thread; a simulation calls Step itself. Errors: Submit refuses
// typed, before anything is allocated; whatever is accepted gets exactly one OnEnd.
class Engine {
 public:
  // REQUIRES: options.Validate() is OK; hasher.block_size() == options.block_size. The runner's arena holds
  // options.num_blocks + options.padding_blocks() blocks.
  Engine(const EngineOptions& options, const hash::BlockHasher& hasher, ModelRunner& runner,
         const Clock& clock, EngineMetrics& metrics, StateListener* listener = nullptr);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // INVALID_ARGUMENT: the prompt or max_tokens is out of range, or it can never fit (both numbers in the
  // message). RESOURCE_EXHAUSTED with a retry hint: the queue is full. UNAVAILABLE: draining.
  // DEADLINE_EXCEEDED: the deadline has passed, or cannot be met behind those who wait. Reasons
  // (common/base/error.h): INVALID_FIELD, NEVER_FITS, QUEUE_FULL, TOKENS_FULL, DRAINING, DEADLINE. The sinks
  // may be called before this returns.
  absl::StatusOr<Accepted> Submit(Request request);

  // Ends a sequence in any state, within one step: choice i of a request has Submit's id + i; unknown and
  // ended ids are ignored. kStop is for a stop string matched by the service: the outcome then is a success.
  // Its completion_tokens are the tokens delivered, which may have run past the stop: the service counts the
  // ones that make up the answer.
  void Cancel(SequenceId id, EndReason reason);

  // The sink of a paused sequence has room again. Ignored for any other.
  void Resume(SequenceId id);

  // Refuses what comes from now on; what is accepted runs on.
  void Drain();

  EngineSnapshot Snapshot() const;

  // How long the steps launched last should take by the step model, until the next ones are; before it knows,
  // as long as the longest yet.
  Duration PredictedStep() const;

  // One step: drain the inbox, plan, reserve, build, launch; then collect and commit the oldest step in
  // flight, this one where the runner's depth is 1. False when there was nothing to do.
  bool Step();
  // Blocks the engine thread until there is something to do or Shutdown() was called: requests that run or
  // wait always are, and it sleeps past no deadline. False after Shutdown().
  bool WaitForWork();
  // Wakes WaitForWork for good. What is still in flight ends as CANCELLED in the destructor.
  void Shutdown();

  // Aborts when an invariant of docs/engine.md does not hold. Engine thread.
  void CheckInvariants() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qanat::engine
