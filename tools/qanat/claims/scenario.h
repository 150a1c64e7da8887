// What `qanat bench claims` runs: modes of the engine, and requests that tell them apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/qanat/workload.h"
#include "worker/engine/engine_options.h"

namespace qanat::tools::claims {

// Tokens of a block, in all modes.
inline constexpr int kBlockSize = 16;
constexpr int BlocksFor(int tokens) { return (tokens + kBlockSize - 1) / kBlockSize; }

struct Mode {
  std::string name;
  engine::Batching batching = engine::Batching::kContinuous;
  kv::Layout layout = kv::Layout::kPaged;
  bool prefix_cache = false;
};

// From how servers were to how this one is, a step at a time.
std::vector<Mode> Ladder();

enum class Lengths { kExponential, kLogNormal, kConstant };
std::string NameOf(Lengths lengths);

// Sizes that suit a device.
struct Sizes {
  int seats = 16;
  int requests = 0;
  int prompt = 0;             // tokens, in the mean
  bool prompts_vary = false;  // log-normal; else all are equal
  int shared = 0;             // of a prompt, the beginning that one of `groups` texts is
  int groups = 8;
  int output = 0;   // tokens, in the mean
  int longest = 0;  // output that a request may ask for: what a reservation must reckon with
};

// Requests and the room they run in.
struct Scenario {
  std::string title;
  std::string about;
  Workload workload;
  std::vector<Mode> modes;
  Sizes sizes;
  int num_blocks = 0;
};

// All are submitted at once, so that somebody waits until the last one is admitted. Each ends after a drawn
// length that only it knows; what it asks for is `sizes.longest`. `tight`: the pool is too small for
// `sizes.seats` longest cases, and large enough for as many requests as they are in the mean.
Scenario MakeLadder(const Sizes& sizes, Lengths lengths, bool tight, uint64_t seed, int32_t vocabulary);

// The same with two modes and long prompts: how much of what is reserved is used.
Scenario MakeKvUse(const Sizes& sizes, uint64_t seed, int32_t vocabulary);

// A closed loop of `sizes.seats`: 512 tokens that a group of requests shares, 32 of their own, 32 of output.
Scenario MakeSharedPrefix(int requests, int seats, uint64_t seed, int32_t vocabulary);

}  // namespace qanat::tools::claims
