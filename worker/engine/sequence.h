// One generation: its tokens, how many of them are computed, and where it stands.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "worker/engine/engine_options.h"
#include "worker/engine/prompt_lookup.h"
#include "worker/engine/request.h"
#include "worker/kv/block_table.h"

namespace qanat::engine {

// Who goes before whom, from the first arrival to the end: preemption changes nothing about it.
struct Order {
  Priority priority = Priority::kStandard;
  Time due{};  // the deadline, or arrival + the class's default when that is earlier
  SequenceId id{};

  auto operator<=>(const Order&) const = default;
};

// What: the state machine of a generation.
//
//                Admit              End
//     kWaiting --------> kRunning ------> kEnded
//        ^  ^    Preempt,   |  |        (from any)
//        |  +-- StartOver --+  | Pause
//        +------ Resume ---- kPaused
//
// There is no prefill and no decode: a running sequence computes until num_computed() reaches num_tokens(),
// and computing the last token draws the next one. Owns: tokens, block table. Ended, it owns no block.
// Threads: the engine thread. Errors: none; a transition from any other state aborts.
//
// While steps are in flight it knows what they compute and draw for it, so that the next step is planned as
// if they were done. Who stops running forgets it: what those steps draw for it is drawn again, the same.
//
// Invariants: num_scored() > num_computed() while prompt tokens are to be scored; num_computed() <=
// num_tokens(), and < while running between steps; a sequence that is not running has no block, nothing
// computed and nothing in flight.
class Sequence {
 public:
  enum class State : uint8_t { kWaiting, kRunning, kPaused, kEnded };

  // `table` is empty. A choice other than 0 is held until Release.
  Sequence(SequenceId id, Request request, Time arrival, const EngineOptions& options, kv::BlockTable table,
           uint32_t choice = 0);

  SequenceId id() const { return order_.id; }
  uint32_t choice() const { return choice_; }
  // It must not be admitted yet: choice 0 has its prompt still to compute.
  bool held() const { return held_; }
  void Release() { held_ = false; }
  const Order& order() const { return order_; }
  Priority priority() const { return order_.priority; }
  State state() const { return state_; }
  const Request& request() const { return request_; }  // but for its prompt, which is in tokens()
  kv::BlockTable& table() { return table_; }
  const kv::BlockTable& table() const { return table_; }

  // Prompt, then output.
  absl::Span<const TokenId> tokens() const { return tokens_; }
  absl::Span<const TokenId> computed() const { return tokens().first(num_computed_); }
  absl::Span<const TokenId> output() const { return tokens().subspan(num_prompt_tokens_); }
  int32_t num_tokens() const { return static_cast<int32_t>(tokens_.size()); }
  int32_t num_prompt_tokens() const { return num_prompt_tokens_; }
  int32_t num_output_tokens() const { return num_tokens() - num_prompt_tokens_; }
  // Of its tokens, when the request's rules ask for them; they know nothing of preemptions.
  const sampling::TokenCounts& token_counts() const { return token_counts_; }
  // With keys and values in the cache.
  int32_t num_computed() const { return num_computed_; }
  // The same when the steps in flight are done, but for drafts.
  int32_t num_launched() const { return num_computed_ + flying_.tokens; }
  // Tokens when the steps in flight are done, the fewest if there are drafts.
  int32_t num_expected() const { return num_tokens() + flying_.draws; }
  // Tokens that no step computes yet.
  int32_t num_missing() const { return num_expected() - num_launched(); }
  // What steps in flight do for it: tokens computed (without drafts), drawn for certain, drafts to be judged.
  struct InFlight {
    int32_t steps = 0;
    int32_t tokens = 0;
    int32_t draws = 0;
    int32_t drafts = 0;
  };
  const InFlight& in_flight() const { return flying_; }
  // Prompt and max_tokens, clipped to the context: it never holds more.
  int32_t max_total_tokens() const { return max_total_tokens_; }
  // How many tokens it had at its last admission: what it was admitted to compute.
  int32_t num_admitted_tokens() const { return num_admitted_tokens_; }

  // Prompt positions below it need no score any more: told, or not asked for.
  int32_t num_scored() const { return num_scored_; }
  // Of its tokens from `from` on, the position of the first whose logits score one of the prompt.
  int32_t first_scoring(int32_t from) const { return std::max(num_scored_ - 1, from); }
  // There is such a token. `from` as for ScoredBy.
  bool scores_prompt(int32_t from) const { return first_scoring(from) + 1 < num_prompt_tokens_; }
  // Rows of logits that the `n` tokens from `from` on take at most: to score the prompt, and to draw.
  int32_t LogitRows(int32_t from, int32_t n) const;
  // Prompt positions [first, end) that the logits of the `n` tokens from `from` on score. `from` is
  // num_computed() or, with steps in flight, num_launched().
  struct Scored {
    int32_t first;
    int32_t end;
  };
  Scored ScoredBy(int32_t from, int32_t n) const;

  // So many of its leading tokens may come from the prefix cache: where the request wants each token of the
  // prompt computed, those that it has computed before.
  int32_t num_readable() const { return request_.reads_cache() ? num_tokens() : max_computed_; }

  bool ever_admitted() const { return first_scheduled_.has_value(); }
  int32_t num_preemptions() const { return num_preemptions_; }
  Time arrival() const { return arrival_; }
  std::optional<Time> last_token_time() const { return last_token_; }
  // From pauses to the admissions that ended them, before its first token and from there to its last: time of
  // its reader's, within Outcome's prefill and decode.
  Duration paused_in_prefill() const { return paused_in_prefill_; }
  Duration paused_in_decode() const { return paused_in_decode_; }

  // The first `num_cached` tokens come from the prefix cache.
  void Admit(int32_t num_cached, Time now);
  // A step was launched that computes its next `tokens` tokens, and `drafts` guesses behind them.
  void Launch(int32_t tokens, bool draws, int32_t drafts);
  // The oldest of these was collected: nothing of it is in flight any more. Advance and Append follow.
  void Collect(int32_t tokens, bool draws, int32_t drafts);
  // `n` more tokens are computed. Returns how many of them had been computed before a preemption; what a
  // pause or a new start made it compute again is not among them.
  int32_t Advance(int32_t n);
  // REQUIRES: running, everything computed. The reason when this token is the last one.
  std::optional<EndReason> Append(TokenId token, Time now);
  // Forgets what is computed or in flight; the tokens stay, to be computed again. REQUIRES: the table is
  // released.
  void Preempt();
  // The same, through no fault of the pool: blocks that it hit turned out to hold nothing.
  void StartOver();
  // The same, by the will of its reader, until Resume.
  void Pause(Time now);
  void Resume();
  // Its sink hears of the output's token at `position`: the one behind the last that it heard of.
  void Tell(int32_t position);
  int32_t num_told() const { return num_told_; }
  // REQUIRES: the table is released. `status` as in Outcome.
  Outcome End(EndReason reason, absl::Status status, Time now);

  // Guesses at what comes next; made when it is first asked for, and gone when it stops running.
  PromptLookup& prompt_lookup();
  bool has_prompt_lookup() const { return prompt_lookup_ != nullptr; }

  void CheckInvariants() const;

 private:
  void StopRunning(State next);

  Request request_;
  std::vector<TokenId> tokens_;
  sampling::TokenCounts token_counts_;
  const int32_t num_prompt_tokens_;
  const int32_t max_total_tokens_;
  const Time arrival_;
  const Order order_;
  const uint32_t choice_;
  bool held_;
  kv::BlockTable table_;

  std::unique_ptr<PromptLookup> prompt_lookup_;

  State state_ = State::kWaiting;
  int32_t num_computed_ = 0;
  InFlight flying_;
  int32_t num_scored_;
  int32_t max_computed_ = 0;  // ever
  // Positions [lost_first_, lost_end_) were computed before a preemption, and not again since; some of them
  // may be, where a pause came between two. Empty where lost_first_ is no less: it grows with what is
  // computed.
  int32_t lost_first_ = 0;
  int32_t lost_end_ = 0;
  int32_t num_admitted_tokens_ = 0;
  int32_t num_told_ = 0;
  int32_t num_cached_tokens_ = 0;  // at the first admission
  int32_t num_preemptions_ = 0;
  int32_t num_recomputed_ = 0;
  std::optional<Time> first_scheduled_;
  std::optional<Time> first_token_;
  std::optional<Time> last_token_;
  std::optional<Time> paused_since_;
  Duration paused_{};  // since its last token
  Duration paused_in_prefill_{};
  Duration paused_in_decode_{};
};

}  // namespace qanat::engine
