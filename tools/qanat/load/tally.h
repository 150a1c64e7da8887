// What became of the requests of a load, and the figures that follow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"

namespace qanat::tools {

// One request. Times are since the start of the load.
struct RequestRecord {
  Duration due{};            // when it was to be sent; where nothing sets a time, when it was
  Duration sent{};           // when it was
  Duration first{}, last{};  // its first and its last token, if it had any
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  // as the server says: 0 where it did not come so far
  int32_t wanted = 0;         // tokens that were asked for
  int32_t tokens = 0;         // that came
  absl::Status status{};
  bool interrupted = false;  // by us: it counts neither as served nor as refused

  // An end without an error, but not the answer that was asked for. An answer has at least one token.
  bool FellShort() const { return status.ok() && tokens < std::max(wanted, 1); }
};

struct Percentiles {
  double p50 = 0, p90 = 0, p99 = 0;
};

// What an answer must keep to count as good. Unset: anything does.
struct Limits {
  std::optional<Duration> ttft, tpot;
};

// Times in ms.
//   ttft  from when the request was due, so that a late client hides nothing, to the first token
//   tpot  of a request: from its first to its last token, over the tokens after the first
//   itl   gaps between tokens, of all requests; tokens that one message brings come at the same time
struct Summary {
  double seconds = 0;
  int64_t served = 0, interrupted = 0;
  int64_t short_answers = 0;               // ended OK with fewer tokens than wanted: not served
  std::map<std::string, int64_t> refused;  // by code and reason: whatever did not end OK
  absl::Status commonest_refusal;          // the first of them; OK: none
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;  // of requests that got a token
  Percentiles ttft, tpot, itl, late;                                // late: from due to sent
  int64_t good = 0;                                                 // served within the limits

  double PerSecond(int64_t count) const { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }
};

// All zero when there are none.
Percentiles PercentilesOf(std::vector<double> values);

// What: collects records and gaps. Threads: one. Errors: none.
class Tally {
 public:
  void Add(RequestRecord record) { records_.push_back(std::move(record)); }
  // `tokens` more of a request, `gap` after those before.
  void AddGap(Duration gap, int32_t tokens);

  size_t size() const { return records_.size(); }
  // `elapsed`: from the start to the last end.
  Summary Summarize(Duration elapsed, const Limits& limits) const;

 private:
  std::vector<RequestRecord> records_;
  std::vector<double> gaps_ms_;
};

}  // namespace qanat::tools
