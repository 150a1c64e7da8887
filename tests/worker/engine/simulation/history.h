// What befalls an engine in a simulation, as data: the same history runs the same way for ever, and a part of
// a history is a history.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/engine/engine_options.h"
#include "worker/engine/request.h"

namespace qanat::engine::simulation {

// A request in few numbers. Its prompt begins with `shared` tokens of one of three texts, so that prompts
// share prefixes of any length, and goes on with tokens drawn from `seed`.
struct SimRequest {
  int32_t text = 0;
  int32_t shared = 0;
  int32_t length = 1;
  int32_t max_tokens = 1;
  uint64_t seed = 0;
  bool greedy = true;
  bool bypass_prefix_cache = false;
  bool other_namespace = false;
  bool may_stop = false;  // has end tokens
  int32_t choices = 1;
  bool logprobs = false;
  bool prompt_logprobs = false;
  bool penalized = false;  // what is drawn goes by the tokens that came
  Priority priority = Priority::kStandard;
  int32_t deadline_ms = 0;  // after its submission; 0: none
};

struct SimEvent {
  enum class Kind : uint8_t {
    kSubmit,
    kCancel,
    kStop,
    kFailRow,
    kStall,      // its reader takes `amount` more tokens, then nothing
    kUnstall,    // and takes all again
    kJump,       // the clock goes on by `amount` ms at once
    kSlowListen  // who hears of the cache takes `amount` ms for the next word
  };
  int32_t step = 0;  // happens before this step
  Kind kind = Kind::kSubmit;
  int32_t request = 0;  // in History::requests; nothing happens to one that was not submitted yet
  int32_t choice = 0;   // of the request, to be cancelled, stopped or failed
  int32_t amount = 0;
};

// Events are sorted by step.
struct History {
  EngineOptions options;
  int32_t vocabulary = 1000;  // few tokens: texts that repeat themselves
  int depth = 1;              // steps that the device takes at once
  std::vector<SimRequest> requests;
  std::vector<SimEvent> events;
};

// Tiny pools, so that preemption and eviction are ordinary. Equal seeds, equal histories.
History MakeHistory(uint64_t seed);

// Without a sink.
Request MakeRequest(const SimRequest& request, int32_t vocabulary);

// A line for the options, one a request and one an event.
std::string Describe(const History& history);

}  // namespace qanat::engine::simulation
