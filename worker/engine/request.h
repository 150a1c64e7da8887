// What a caller hands to the engine, and what it hears back.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/hash/block_hash.h"
#include "worker/sampling/params.h"

namespace qanat::engine {

enum class Priority : uint8_t { kInteractive, kStandard, kBatch };
// Numbers of requests, by Priority.
using CountByPriority = std::array<int32_t, 3>;

// Why a generation ended. kStop: one of the request's end tokens, or a stop string that the service matched.
enum class EndReason : uint8_t { kStop, kLength, kCancelled, kDeadline, kError };

// The end of one generation, with what it cost.
struct Outcome {
  EndReason reason = EndReason::kError;
  absl::Status status;  // not OK for kCancelled, kDeadline and kError
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;      // of the prompt, found in the prefix cache when first admitted
  int32_t completion_tokens = 0;  // drawn and delivered, an end token included
  std::optional<Duration> queue;  // accepted to first scheduled, if it ever was
  Duration prefill{};             // first scheduled to first token
  Duration decode{};              // first to last token
  int32_t preemptions = 0;
  int32_t recomputed_tokens = 0;
  uint64_t load_version = 0;  // of the load without this request
};

// What: where the tokens of one request go. Shared by the engine and whoever streams them out: the engine
// drops it after OnEnd. Threads: called on the engine thread; must never block, and does its work elsewhere.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  // `first` is the position in the output of tokens[0]: no gap and no repeat from call to call, whatever
  // preemptions there were. `scores`: of these tokens, if the request asks for logprobs; else empty.
  virtual void OnTokens(int32_t first, absl::Span<const TokenId> tokens,
                        absl::Span<const sampling::ScoredToken> scores) = 0;
  // Scores of the prompt's tokens from position `first` on, which begins at 1: no gap and no repeat, and all
  // of them before the first OnTokens. Only if the request asks for prompt_logprobs.
  virtual void OnPromptScores(int32_t first, absl::Span<const sampling::ScoredToken> scores) = 0;
  // How many tokens it takes now. Without room for the next one its sequence is paused.
  virtual int32_t Room() const { return std::numeric_limits<int32_t>::max(); }
  // Its sequence was paused and computes nothing until Engine::Resume. Comes at most once before that.
  virtual void OnPaused() {}
  // Exactly once, after the last OnTokens.
  virtual void OnEnd(const Outcome& outcome) = 0;
};

// n choices of one prompt are n sequences, with consecutive ids. The first is admitted like any request; the
// others hold no seat and no block before it has drawn its first token, and then find its prompt in the
// cache.
struct Request {
  std::vector<TokenId> prompt;  // not empty, shorter than the context
  hash::Namespace cache_namespace{};
  sampling::Params sampling;
  std::shared_ptr<const sampling::LogitRules> rules;  // null: none. Shared: it may be long, and never changes
  uint64_t seed = 0;
  int32_t max_tokens = 0;  // > 0; clipped to the context by the engine
  // Score each drawn token, and each of the prompt's but the first, with so many of the most likely in its
  // place.
  std::optional<int32_t> logprobs;
  std::optional<int32_t> prompt_logprobs;
  // Drawing one of these ends the generation with kStop; the token itself is counted and delivered.
  std::vector<TokenId> end_tokens;
  Priority priority = Priority::kStandard;
  std::optional<Time> deadline;
  // Choice 0 computes every prompt token; may still publish, and after a pause or a preemption it finds what
  // it computed before. The same with prompt_logprobs.
  bool bypass_prefix_cache = false;
  bool reads_cache() const { return !bypass_prefix_cache && !prompt_logprobs.has_value(); }
  // Of choice 0, and of choices 1 .. n - 1. Shared: streams may outlive the generation, and the other way
  // round.
  std::shared_ptr<TokenSink> sink;
  std::vector<std::shared_ptr<TokenSink>> other_sinks;

  int32_t num_choices() const { return 1 + static_cast<int32_t>(other_sinks.size()); }
};

}  // namespace qanat::engine
