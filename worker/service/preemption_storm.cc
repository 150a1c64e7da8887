#include "worker/service/preemption_storm.h"

#include "common/base/log.h"

namespace qanat::service {

void PreemptionStorm::OnStep(const engine::StepStats& stats) {
  passed_ += stats.took;
  ++steps_;
  preemptions_ += stats.preemptions;
  recomputed_tokens_ += stats.recomputed_tokens;
  if (passed_ < kWindow) return;
  if (preemptions_ >= kStorm) {
    LogEvent(spdlog::level::warn, "preemption storm")
        .With("preemptions", preemptions_)
        .With("recomputed_tokens", recomputed_tokens_)
        .With("steps", steps_)
        .With("sequences", stats.sequences)
        .With("seconds", Seconds(passed_));
  }
  *this = {};
}

}  // namespace qanat::service
