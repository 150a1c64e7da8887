#include "tools/qanat/workload.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/hash/block_hash.h"

namespace qanat::tools {
namespace {

// Keeps the steps, and the last one's stats for the observer.
class Recorder final : public engine::EngineMetrics {
 public:
  explicit Recorder(std::vector<engine::MeasuredStep>& steps) : steps_(steps) {}
  void OnStep(const engine::StepStats& stats) override {
    steps_.push_back({stats.shape, stats.took});
    last_ = stats;
  }
  const engine::StepStats& last() const { return last_; }

 private:
  std::vector<engine::MeasuredStep>& steps_;
  engine::StepStats last_;
};

// Notes when a request's tokens came.
class StopWatch final : public engine::TokenSink {
 public:
  StopWatch(const Clock& clock, Time start, RequestTimes& times, int& open, std::function<void()> stop,
            int32_t stop_after)
      : clock_(clock),
        start_(start),
        times_(times),
        open_(open),
        stop_(std::move(stop)),
        stop_after_(stop_after) {}
  void OnTokens(int32_t first, absl::Span<const TokenId> tokens,
                absl::Span<const sampling::ScoredToken>) override {
    times_.drawn.insert(times_.drawn.end(), tokens.size(), clock_.Now() - start_);
    if (first + static_cast<int32_t>(tokens.size()) == stop_after_) stop_();
  }
  void OnPromptScores(int32_t, absl::Span<const sampling::ScoredToken>) override {}
  void OnEnd(const engine::Outcome& outcome) override {
    times_.cached_tokens = outcome.cached_tokens;
    times_.preemptions = outcome.preemptions;
    --open_;
  }

 private:
  const Clock& clock_;
  const Time start_;
  RequestTimes& times_;
  int& open_;
  const std::function<void()> stop_;
  const int32_t stop_after_;
};

// One run.
class Run {
 public:
  Run(const Workload& workload, const engine::EngineOptions& options, engine::ModelRunner& runner,
      WaitableClock& clock)
      : workload_(workload),
        clock_(clock),
        recorder_(result_.steps),
        engine_(options, hash::BlockHasher(hash::kPublicKey, "workload", options.block_size), runner, clock,
                recorder_),
        start_(clock.Now()) {
    result_.requests.resize(workload.requests.size());
    ids_.resize(workload.requests.size());
  }

  absl::StatusOr<WorkloadResult> ToTheEnd(const StepObserver& observer) {
    while (true) {
      QANAT_RETURN_IF_ERROR(SubmitDue());
      const size_t steps = result_.steps.size();
      const bool busy = engine_.Step();
      if (observer && result_.steps.size() > steps) observer(engine_, recorder_.last());
      if (busy) continue;
      if (next_ == workload_.requests.size()) break;
      if (workload_.concurrency == 0) clock_.WaitUntil(start_ + workload_.requests[next_].arrival);
    }
    for (size_t i = 0; i < result_.requests.size(); ++i) {
      const RequestTimes& times = result_.requests[i];
      const WorkloadRequest& request = workload_.requests[i];
      if (times.refused()) continue;
      const int32_t tokens = request.ends_after > 0 ? request.ends_after : request.max_tokens;
      if (times.drawn.size() != static_cast<size_t>(tokens)) {
        return absl::InternalError(absl::StrCat(workload_.name, ": request ", i, " did not run to its end"));
      }
      result_.span = std::max(result_.span, times.last());
    }
    return std::move(result_);
  }

 private:
  absl::Status SubmitDue() {
    while (next_ < workload_.requests.size()) {
      const bool due = workload_.concurrency > 0 ? open_ < workload_.concurrency
                                                 : start_ + workload_.requests[next_].arrival <= clock_.Now();
      if (!due) break;
      QANAT_RETURN_IF_ERROR(Submit(next_++));
    }
    return absl::OkStatus();
  }

  // A full queue refuses, which is a result; anything else is a mistake in the workload.
  absl::Status Submit(size_t index) {
    const WorkloadRequest& from = workload_.requests[index];
    RequestTimes& times = result_.requests[index];
    times.arrival = workload_.concurrency > 0 ? clock_.Now() - start_ : from.arrival;
    times.prompt_tokens = static_cast<int32_t>(from.prompt.size());
    engine::Request request;
    request.prompt = from.prompt;
    request.sampling.temperature = 0;
    request.max_tokens = from.max_tokens;
    request.priority = from.priority;
    // Found after the step, in time for the next one: as the service does.
    request.sink = std::make_shared<StopWatch>(
        clock_, start_, times, open_,
        [this, index] { engine_.Cancel(ids_[index], engine::EndReason::kStop); }, from.ends_after);
    const auto submitted = engine_.Submit(std::move(request));
    if (absl::IsResourceExhausted(submitted.status())) return absl::OkStatus();
    QANAT_RETURN_IF_ERROR(submitted.status());
    ++open_;
    ids_[index] = submitted->id;
    return absl::OkStatus();
  }

  const Workload& workload_;
  WaitableClock& clock_;
  WorkloadResult result_;
  std::vector<SequenceId> ids_;  // parallel to the requests; of those submitted
  size_t next_ = 0;              // of the requests
  int open_ = 0;
  Recorder recorder_;
  engine::Engine engine_;
  const Time start_;
};

}  // namespace

int64_t WorkloadResult::completion_tokens() const {
  int64_t tokens = 0;
  for (const RequestTimes& times : requests) tokens += static_cast<int64_t>(times.drawn.size());
  return tokens;
}

int64_t WorkloadResult::total_tokens() const {
  int64_t tokens = completion_tokens();
  for (const RequestTimes& times : requests) {
    if (!times.refused()) tokens += times.prompt_tokens;
  }
  return tokens;
}

absl::StatusOr<WorkloadResult> RunWorkload(const Workload& workload, const engine::EngineOptions& options,
                                           engine::ModelRunner& runner, WaitableClock& clock,
                                           const StepObserver& observer) {
  return Run(workload, options, runner, clock).ToTheEnd(observer);
}

}  // namespace qanat::tools
