#include "worker/engine/untold.h"

#include <utility>

#include "absl/types/span.h"

namespace qanat::engine {

void Untold::Tell(EngineMetrics& metrics) {
  for (const PromptScores& told : std::exchange(scores_, {})) {
    told.sequence->request().sink->OnPromptScores(told.first, told.scores);
  }
  for (const Token& token : std::exchange(tokens_, {})) {
    token.sequence->Tell(token.position);
    const absl::Span<const TokenId> output = token.sequence->output();
    absl::Span<const sampling::ScoredToken> scores;
    if (token.score.has_value()) scores = absl::MakeConstSpan(&*token.score, 1);
    token.sequence->request().sink->OnTokens(token.position, output.subspan(token.position, 1), scores);
  }
  for (const Sequence* sequence : std::exchange(pauses_, {})) sequence->request().sink->OnPaused();
  for (const Ended& ended : std::exchange(ends_, {})) {
    metrics.OnEnd(ended.outcome, ended.total);
    ended.sequence->request().sink->OnEnd(ended.outcome);
  }
}

}  // namespace qanat::engine
