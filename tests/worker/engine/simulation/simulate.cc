#include "tests/worker/engine/simulation/simulate.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_model_runner.h"
#include "tests/fakes/recording_listener.h"
#include "tests/fakes/recording_sink.h"
#include "worker/engine/engine.h"

namespace qanat::engine::simulation {
namespace {

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 32);
}

class TallyingMetrics final : public EngineMetrics {
 public:
  void OnStep(const StepStats& stats) override {
    ++tally.steps;
    tally.preemptions += stats.preemptions;
    tally.hit_tokens += stats.hit_tokens;
    tally.evictions += stats.evictions;
    tally.accepted_drafts += stats.accepted_drafts;
    tally.rejected_drafts += stats.rejected_drafts;
    tally.trace = Mix(Mix(tally.trace, stats.sequences), stats.prefill_tokens);
  }
  void OnEnd(const Outcome& outcome, Duration total) override {
    ++ends;
    tally.most_preemptions = std::max(tally.most_preemptions, outcome.preemptions);
    tally.trace = Mix(Mix(tally.trace, outcome.completion_tokens), total.count());
  }

  Tally tally;
  int64_t ends = 0;
};

// A reader that may stop reading.
class StallingSink final : public fakes::RecordingSink {
 public:
  int32_t Room() const override { return takes_ - static_cast<int32_t>(tokens().size()); }
  void OnPaused() override {
    QANAT_CHECK(takes_ < kAll && !paused_) << "paused without a reason";
    paused_ = true;
    ever_paused_ = true;
  }
  // After `more` tokens.
  void Stall(int32_t more) { takes_ = static_cast<int32_t>(tokens().size()) + more; }
  // True: the sequence is paused.
  bool Unstall() {
    takes_ = kAll;
    return std::exchange(paused_, false);
  }
  bool ever_paused() const { return ever_paused_; }

 private:
  static constexpr int32_t kAll = 100'000;

  int32_t takes_ = kAll;
  bool paused_ = false;
  bool ever_paused_ = false;
};

// Hears of the cache, and may take its time about it.
class SlowListener final : public StateListener {
 public:
  explicit SlowListener(fakes::FakeClock& clock) : clock_(clock) {}
  void OnResidencyChange(const hash::SetDelta& delta) override {
    clock_.Advance(std::exchange(delay_, {}));
    listener_.OnResidencyChange(delta);
  }
  void OnLoadChange() override { listener_.OnLoadChange(); }
  void Delay(Duration delay) { delay_ = delay; }
  const fakes::RecordingListener& heard() const { return listener_; }

 private:
  fakes::FakeClock& clock_;
  fakes::RecordingListener listener_;
  Duration delay_{};
};

// What: one run. A device takes a millisecond a step, and a tenth for each token.
class Run {
 public:
  Run(const History& history, const RunnerWrapper& wrap)
      : history_(history),
        model_(history.options.num_blocks + history.options.padding_blocks(), history.options.block_size,
               history.vocabulary, history.depth),
        wrapped_(wrap ? wrap(model_) : nullptr),
        engine_(history.options, hash::BlockHasher(hash::kPublicKey, "model", history.options.block_size),
                wrapped_ ? *wrapped_ : static_cast<ModelRunner&>(model_), clock_, metrics_, &listener_),
        requests_(history.requests.size()),
        ids_(history.requests.size()),
        sinks_(history.requests.size()) {
    model_.set_on_launch([this](const ModelBatch& batch) {
      clock_.Advance(std::chrono::microseconds(1000 + 100 * batch.num_tokens));
      metrics_.tally.padding += std::count_if(batch.sequences.begin(), batch.sequences.end(),
                                              [](const BatchSequence& row) { return row.id == kPaddingId; });
    });
  }

  Tally Finish() {
    size_t next = 0;
    for (int32_t step = 0; next < history_.events.size() || !AllEnded(); ++step) {
      QANAT_CHECK(step < 20000) << "no end in sight";
      for (; next < history_.events.size() && history_.events[next].step <= step; ++next) {
        Apply(history_.events[next]);
      }
      Step();
    }
    // Steps in flight that nobody waits for.
    while (engine_.Step()) {
    }
    CheckAnswers();
    CheckClean();
    metrics_.tally.pending_reads = model_.pending_reads();
    return metrics_.tally;
  }

 private:
  fakes::RecordingSink& SinkOf(const Request& request, int32_t choice = 0) const {
    return static_cast<fakes::RecordingSink&>(
        *(choice == 0 ? request.sink : request.other_sinks[choice - 1]));
  }
  bool AllEnded() const {
    return std::all_of(requests_.begin(), requests_.end(), [this](const auto& request) {
      if (!request.has_value()) return true;
      for (int32_t choice = 0; choice < request->num_choices(); ++choice) {
        if (!SinkOf(*request, choice).ended()) return false;
      }
      return true;
    });
  }

  void Apply(const SimEvent& event) {
    const auto index = static_cast<size_t>(event.request);
    const std::chrono::milliseconds amount(event.amount);
    if (event.kind == SimEvent::Kind::kSubmit) return Submit(index);
    if (event.kind == SimEvent::Kind::kJump) return clock_.Advance(amount);
    if (event.kind == SimEvent::Kind::kSlowListen) return listener_.Delay(amount);
    if (!requests_[index].has_value()) return;
    const SequenceId id{ToInt(ids_[index]) + static_cast<uint64_t>(event.choice)};
    switch (event.kind) {
      case SimEvent::Kind::kSubmit:
      case SimEvent::Kind::kJump:
      case SimEvent::Kind::kSlowListen:
        break;
      case SimEvent::Kind::kCancel:
        cancelled_.insert(id);
        return engine_.Cancel(id, EndReason::kCancelled);
      case SimEvent::Kind::kStop:
        stopped_.insert(id);
        return engine_.Cancel(id, EndReason::kStop);
      case SimEvent::Kind::kStall:
        return sinks_[index]->Stall(event.amount);
      case SimEvent::Kind::kUnstall:
        if (sinks_[index]->Unstall()) engine_.Resume(ids_[index]);
        return;
      case SimEvent::Kind::kFailRow:
        return model_.FailNextRowOf(id);
    }
  }

  void Submit(size_t index) {
    const SimRequest& sim = history_.requests[index];
    Request request = MakeRequest(sim, history_.vocabulary);
    if (sim.deadline_ms > 0) request.deadline = clock_.Now() + std::chrono::milliseconds(sim.deadline_ms);
    sinks_[index] = std::make_shared<StallingSink>();
    request.sink = sinks_[index];
    for (int32_t choice = 1; choice < sim.choices; ++choice) {
      request.other_sinks.push_back(std::make_shared<fakes::RecordingSink>());
    }
    const auto accepted = engine_.Submit(request);
    if (absl::IsDeadlineExceeded(accepted.status()) && sim.deadline_ms > 0) {
      // Early, since it cannot be met by what the engine has seen.
      ++metrics_.tally.refused;
      return;
    }
    QANAT_CHECK(accepted.ok()) << accepted.status();
    ++submitted_;
    ids_[index] = accepted->id;
    requests_[index] = std::move(request);
  }

  void Step() {
    const bool pending = !AllEnded();
    const int32_t paused = engine_.Snapshot().paused;
    const int64_t steps = metrics_.tally.steps;
    const int64_t ends = metrics_.ends;
    const bool worked = engine_.Step();
    engine_.CheckInvariants();
    const EngineSnapshot after = engine_.Snapshot();
    metrics_.tally.pauses += std::max(0, after.paused - paused);
    // Time goes on while everybody is paused.
    if (!worked) clock_.Advance(std::chrono::milliseconds(1));
    QANAT_CHECK(worked || !pending || after.running + after.waiting == 0)
        << "there is work, and nobody does it";
    // Where steps overlap one may have been launched, and none collected.
    const bool moved = metrics_.tally.steps > steps || metrics_.ends > ends || after.paused > paused;
    stuck_ = moved || !worked ? 0 : stuck_ + 1;
    QANAT_CHECK(stuck_ < history_.depth) << "work was pending and nothing moved";
  }

  void CheckAnswers() {
    int64_t submitted = 0;
    for (size_t i = 0; i < requests_.size(); ++i) {
      const auto& request = requests_[i];
      if (!request.has_value()) continue;
      submitted += request->num_choices();
      for (int32_t choice = 0; choice < request->num_choices(); ++choice) {
        CheckAnswer(*request, choice);
        CheckReason(i, choice);
      }
    }
    QANAT_CHECK(metrics_.ends == submitted) << "every choice of an accepted request ends once";
  }

  void CheckAnswer(const Request& request, int32_t choice) {
    const Outcome outcome = SinkOf(request, choice).outcome();
    const std::vector<TokenId> tokens = SinkOf(request, choice).tokens();
    std::vector<TokenId> answer = fakes::FakeModelRunner::Answer(
        request, history_.options.context_length, history_.vocabulary, static_cast<uint32_t>(choice));
    QANAT_CHECK(outcome.completion_tokens == static_cast<int32_t>(tokens.size()));
    const bool complete = tokens.size() == answer.size();
    ++(complete ? metrics_.tally.complete : metrics_.tally.broken_off);
    QANAT_CHECK(complete || outcome.reason != EndReason::kLength);
    QANAT_CHECK(tokens.size() <= answer.size());
    CheckScores(request, choice, tokens);
    answer.resize(tokens.size());
    QANAT_CHECK(tokens == answer) << "the answer depends on who else is served";
    QANAT_CHECK(outcome.status.ok() ==
                (outcome.reason == EndReason::kStop || outcome.reason == EndReason::kLength));
  }

  // What befell the sequence, and nothing else, ended it. A failed row is nobody's affair but its own, and
  // when steps do not overlap it ends what it fails in any case.
  void CheckReason(size_t index, int32_t choice) {
    const Request& request = *requests_[index];
    const SequenceId id{ToInt(ids_[index]) + static_cast<uint64_t>(choice)};
    const Outcome outcome = SinkOf(request, choice).outcome();
    const bool failed = model_.HasFailed(id);
    switch (outcome.reason) {
      case EndReason::kError:
        ++metrics_.tally.failed;
        QANAT_CHECK(failed && absl::IsInternal(outcome.status)) << "an error without a failure";
        break;
      case EndReason::kDeadline:
        ++metrics_.tally.late;
        QANAT_CHECK(request.deadline.has_value()) << "late without a deadline";
        break;
      case EndReason::kCancelled:
        QANAT_CHECK(cancelled_.count(id) > 0 || (choice == 0 && sinks_[index]->ever_paused()))
            << "cancelled by nobody";
        break;
      case EndReason::kStop: {
        const std::vector<TokenId> tokens = SinkOf(request, choice).tokens();
        const auto& ends = request.end_tokens;
        const bool drawn =
            !tokens.empty() && std::find(ends.begin(), ends.end(), tokens.back()) != ends.end();
        QANAT_CHECK(drawn || stopped_.count(id) > 0) << "stopped by nobody";
        break;
      }
      case EndReason::kLength:
        break;
    }
    QANAT_CHECK(!failed || history_.depth > 1 || outcome.reason == EndReason::kError)
        << "a failed row was taken for an answer";
  }

  // Whole if the prompt was computed, and what was told of it in any case.
  void CheckScores(const Request& request, int32_t choice, const std::vector<TokenId>& output) const {
    std::vector<TokenId> tokens = request.prompt;
    tokens.insert(tokens.end(), output.begin(), output.end());
    const auto check = [&](const std::vector<sampling::ScoredToken>& scores, size_t first,
                           int32_t likeliest) {
      for (size_t i = 0; i < scores.size(); ++i) {
        const auto context = absl::MakeConstSpan(tokens).first(first + i);
        QANAT_CHECK(scores[i] == fakes::FakeModelRunner::Score(context, tokens[first + i], likeliest,
                                                               history_.vocabulary));
      }
    };
    const fakes::RecordingSink& sink = SinkOf(request, choice);
    QANAT_CHECK(sink.scores().size() == (request.logprobs.has_value() ? output.size() : 0));
    check(sink.scores(), request.prompt.size(), request.logprobs.value_or(0));
    const size_t scored = request.prompt_logprobs.has_value() && choice == 0 ? request.prompt.size() - 1 : 0;
    QANAT_CHECK(sink.prompt_scores().size() <= scored);
    QANAT_CHECK(output.empty() || sink.prompt_scores().size() == scored);
    check(sink.prompt_scores(), 1, request.prompt_logprobs.value_or(0));
  }

  void CheckClean() const {
    const EngineSnapshot snapshot = engine_.Snapshot();
    QANAT_CHECK(snapshot.free_blocks + snapshot.cached_blocks == snapshot.total_blocks);
    QANAT_CHECK(snapshot.referenced_blocks == 0);
    QANAT_CHECK(snapshot.running + snapshot.waiting + snapshot.paused == 0 && snapshot.waiting_tokens == 0);
    QANAT_CHECK(snapshot.prefill_tokens == 0 && snapshot.context_tokens == 0);
    QANAT_CHECK(static_cast<int64_t>(snapshot.load_version) == submitted_ + metrics_.ends)
        << "each came and ended";
    QANAT_CHECK(static_cast<int32_t>(listener_.heard().resident().size()) == snapshot.cached_blocks);
  }

  const History& history_;
  fakes::FakeClock clock_;
  TallyingMetrics metrics_;
  SlowListener listener_{clock_};
  fakes::FakeModelRunner model_;
  const std::unique_ptr<ModelRunner> wrapped_;
  Engine engine_;
  std::vector<std::optional<Request>> requests_;  // by index; set when submitted
  int64_t submitted_ = 0;
  int32_t stuck_ = 0;  // steps since something moved
  std::vector<SequenceId> ids_;
  std::set<SequenceId> cancelled_, stopped_;
  std::vector<std::shared_ptr<StallingSink>> sinks_;  // shared with the engine
};

}  // namespace

void Tally::Add(const Tally& other) {
  steps += other.steps;
  preemptions += other.preemptions;
  hit_tokens += other.hit_tokens;
  evictions += other.evictions;
  pauses += other.pauses;
  refused += other.refused;
  accepted_drafts += other.accepted_drafts;
  rejected_drafts += other.rejected_drafts;
  padding += other.padding;
  pending_reads += other.pending_reads;
  complete += other.complete;
  broken_off += other.broken_off;
  failed += other.failed;
  late += other.late;
  most_preemptions = std::max(most_preemptions, other.most_preemptions);
  trace = Mix(trace, other.trace);
}

std::string Describe(const Tally& tally) {
  return absl::StrCat(tally.steps, " steps, ", tally.preemptions, " preemptions, ", tally.pauses, " pauses, ",
                      tally.refused, " refused, ", tally.accepted_drafts, " of ",
                      tally.accepted_drafts + tally.rejected_drafts, " drafts right, ", tally.hit_tokens,
                      " hit tokens, ", tally.pending_reads, " rows that read what was pending, ",
                      tally.evictions, " evictions, ", tally.complete, " complete answers, ",
                      tally.broken_off, " broken off, ", tally.failed, " failed, ", tally.late,
                      " late, at most ", tally.most_preemptions, " preemptions of one request");
}

Tally Simulate(const History& history, const RunnerWrapper& wrap) { return Run(history, wrap).Finish(); }

}  // namespace qanat::engine::simulation
