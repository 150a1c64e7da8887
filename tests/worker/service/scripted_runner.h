// A model that answers what a test wrote, at the pace the test sets.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "worker/engine/model_runner.h"

namespace qanat::service {

// What: the output of choice c of a request with seed s is script[s, c], and after its end the last token
// again; without a script it is `fallback`. Scores tell positions apart. Steps wait while held. Threads:
// Launch and Collect are the engine's, the rest any.
class ScriptedRunner final : public engine::ModelRunner {
 public:
  explicit ScriptedRunner(TokenId fallback) : fallback_(fallback) {}

  void SetScript(uint64_t seed, std::vector<TokenId> script, uint32_t choice = 0) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    scripts_[{seed, choice}] = std::move(script);
  }
  // Rows of requests with this seed fail at this position.
  void FailAt(uint64_t seed, uint32_t position) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    failures_.insert({seed, position});
  }

  // Of the token drawn at this position.
  static float LogprobAt(uint32_t position) { return -0.5f - static_cast<float>(position); }

  // Lets `steps` more steps run, then holds; a negative number: all of them.
  void Allow(int64_t steps) EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      allowed_ = steps;
    }
    changed_.NotifyAll();
  }
  // Blocks until a step waits for leave.
  void WaitUntilHeld() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!waits_) changed_.Wait(mu_);
  }

  Handle Launch(const engine::ModelBatch& batch) override EXCLUDES(mu_) {
    MutexLock lock(mu_);
    waits_ = true;
    changed_.NotifyAll();
    while (allowed_ == 0) changed_.Wait(mu_);
    waits_ = false;
    if (allowed_ > 0) --allowed_;
    output_.sequences.clear();
    for (const engine::BatchSequence& sequence : batch.sequences) output_.sequences.push_back(Run(sequence));
    return 1;
  }
  engine::StepOutput Collect(Handle) override { return output_; }

 private:
  engine::SequenceOutput Run(const engine::BatchSequence& row) REQUIRES(mu_) {
    using Kind = engine::SequenceOutput::Kind;
    engine::SequenceOutput output;
    for (const TokenId token : row.scored) output.scored.push_back(Score(token, -1, row.scored_logprobs));
    if (!row.sample) return output;
    if (failures_.count({row.draw.seed, row.draw.position}) > 0) return {Kind::kFailed, -1};
    output.kind = Kind::kToken;
    output.token = TokenAt(row.draw);
    if (row.logprobs.has_value()) {
      output.drawn = {Score(output.token, LogprobAt(row.draw.position), *row.logprobs)};
    }
    return output;
  }
  TokenId TokenAt(const sampling::DrawKey& draw) REQUIRES(mu_) {
    const auto script = scripts_.find({draw.seed, draw.choice});
    if (script == scripts_.end() || script->second.empty()) return fallback_;
    return script->second[std::min<size_t>(draw.position, script->second.size() - 1)];
  }
  // The token itself and its neighbours, each half as likely as the one before.
  static sampling::ScoredToken Score(TokenId token, float logprob, int32_t num_likeliest) {
    sampling::ScoredToken scored = {{token, logprob}, {}};
    for (int32_t i = 0; i < num_likeliest; ++i) {
      scored.likeliest.push_back({token + i, logprob - static_cast<float>(i)});
    }
    return scored;
  }

  const TokenId fallback_;
  engine::StepOutput output_;
  Mutex mu_;
  CondVar changed_;
  std::map<std::pair<uint64_t, uint32_t>, std::vector<TokenId>> scripts_ GUARDED_BY(mu_);
  std::set<std::pair<uint64_t, uint32_t>> failures_ GUARDED_BY(mu_);
  int64_t allowed_ GUARDED_BY(mu_) = -1;
  bool waits_ GUARDED_BY(mu_) = false;
};

}  // namespace qanat::service
