#include "worker/sim/sim_model_runner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"

namespace qanat::sim {
namespace {

// splitmix64's finaliser.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

bool Forbidden(const sampling::LogitRules& rules, TokenId token, uint32_t position) {
  return static_cast<int64_t>(position) < rules.min_tokens &&
         std::find(rules.late.begin(), rules.late.end(), token) != rules.late.end();
}

}  // namespace

SimModelRunner::SimModelRunner(const SimOptions& options, WaitableClock& clock)
    : options_(options), logprob_(-std::log(static_cast<float>(options.vocabulary))), clock_(clock) {
  QANAT_CHECK(options.vocabulary > 0 && options.depth >= 1);
}

engine::ModelRunner::Handle SimModelRunner::Launch(const engine::ModelBatch& batch) {
  QANAT_CHECK(!batch.sequences.empty());
  QANAT_CHECK(static_cast<int>(in_flight_.size()) < options_.depth) << "too many steps in flight";
  const double us = options_.device.PredictUs(engine::ShapeOf(batch));
  free_ = std::max(free_, clock_.Now()) + Duration(static_cast<int64_t>(us * 1e3));
  Step& step = in_flight_.emplace_back(Step{++last_handle_, {}, free_});
  step.output.sequences.reserve(batch.sequences.size());
  for (const engine::BatchSequence& sequence : batch.sequences) {
    step.output.sequences.push_back(OutputOf(sequence));
  }
  return last_handle_;
}

engine::StepOutput SimModelRunner::Collect(Handle handle) {
  QANAT_CHECK(!in_flight_.empty() && in_flight_.front().handle == handle) << "steps are collected in order";
  Step step = std::move(in_flight_.front());
  in_flight_.pop_front();
  clock_.WaitUntil(step.end);
  return std::move(step.output);
}

engine::SequenceOutput SimModelRunner::OutputOf(const engine::BatchSequence& sequence) const {
  engine::SequenceOutput output;
  for (const TokenId token : sequence.scored) {
    output.scored.push_back(Score(token, sequence.scored_logprobs));
  }
  if (!sequence.sample) return output;
  output.kind = engine::SequenceOutput::Kind::kToken;
  const absl::Span<const TokenId> drafts = sequence.tokens.last(sequence.num_drafts);
  for (size_t i = 0; i <= drafts.size(); ++i) {
    const TokenId token = Draw(sequence, sequence.draw.position + static_cast<uint32_t>(i));
    if (i == 0) {
      output.token = token;
    } else {
      output.more.push_back(token);
    }
    if (sequence.logprobs.has_value()) output.drawn.push_back(Score(token, *sequence.logprobs));
    if (i < drafts.size() && drafts[i] != token) break;
  }
  return output;
}

TokenId SimModelRunner::Draw(const engine::BatchSequence& sequence, uint32_t position) const {
  uint64_t hash = Mix(position);
  if (!sequence.params.greedy()) hash = Mix(Mix(hash ^ sequence.draw.seed) ^ sequence.draw.choice);
  const sampling::LogitRules* rules = sequence.rules;
  const bool listed = rules != nullptr && !rules->allowed.empty();
  const auto choices = listed ? rules->allowed.size() : static_cast<size_t>(options_.vocabulary);
  // The next one that may come; the first where all are forbidden.
  for (size_t i = 0; i < choices; ++i) {
    const size_t place = (hash + i) % choices;
    const TokenId token = listed ? rules->allowed[place] : static_cast<TokenId>(place);
    if (rules == nullptr || !Forbidden(*rules, token, position)) return token;
  }
  return listed ? rules->allowed.front() : 0;
}

sampling::ScoredToken SimModelRunner::Score(TokenId token, int32_t num_likeliest) const {
  sampling::ScoredToken scored{.chosen = {token, logprob_}, .likeliest = {}};
  for (TokenId id = 0; id < std::min(num_likeliest, options_.vocabulary); ++id) {
    scored.likeliest.push_back({id, logprob_});
  }
  return scored;
}

}  // namespace qanat::sim
