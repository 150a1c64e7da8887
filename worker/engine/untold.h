// What a step did that callers have not heard yet.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "worker/engine/engine_metrics.h"
#include "worker/engine/sequence.h"

namespace qanat::engine {

// What: gathers tokens, scores, pauses and ends while the state changes, and tells them afterwards, so that
// who hears of something finds it in the snapshot. Owns the sequences that have ended until their sinks know.
// Threads: the engine thread. Errors: none.
class Untold {
 public:
  void AddScores(const Sequence& sequence, int32_t first, std::vector<sampling::ScoredToken> scores) {
    scores_.push_back({&sequence, first, std::move(scores)});
  }
  // The latest token of the sequence.
  void AddToken(Sequence& sequence, std::optional<sampling::ScoredToken> score) {
    tokens_.push_back({&sequence, sequence.num_output_tokens() - 1, std::move(score)});
  }
  void AddPause(const Sequence& sequence) { pauses_.push_back(&sequence); }
  void AddEnd(std::unique_ptr<Sequence> sequence, Outcome outcome, Duration total) {
    ends_.push_back({std::move(sequence), std::move(outcome), total});
  }

  size_t num_ends() const { return ends_.size(); }
  bool empty() const { return scores_.empty() && tokens_.empty() && pauses_.empty() && ends_.empty(); }
  // The version of the load without those that have ended.
  void SetLoadVersion(uint64_t version) {
    for (Ended& ended : ends_) ended.outcome.load_version = version;
  }

  // Tells all of it, in the order of a sequence's life, and is empty.
  void Tell(EngineMetrics& metrics);

 private:
  struct PromptScores {
    const Sequence* sequence;
    int32_t first;  // position in the prompt
    std::vector<sampling::ScoredToken> scores;
  };
  struct Token {
    Sequence* sequence;
    int32_t position;  // in the output
    std::optional<sampling::ScoredToken> score;
  };
  struct Ended {
    std::unique_ptr<Sequence> sequence;
    Outcome outcome;
    Duration total;
  };

  std::vector<PromptScores> scores_;
  std::vector<Token> tokens_;
  std::vector<const Sequence*> pauses_;
  std::vector<Ended> ends_;
};

}  // namespace qanat::engine
