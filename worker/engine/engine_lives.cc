// How sequences come, pause, go on and end.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "worker/engine/end_status.h"
#include "worker/engine/engine_impl.h"

namespace qanat::engine {

void Engine::Impl::DrainInbox() {
  Mail mail = inbox.Take();
  for (Submission& submission : mail.submissions) Accept(std::move(submission));
  for (const Resumption& resumption : mail.resumptions) Resume(resumption.id);
  const Time now = clock.Now();
  for (const Cancellation& cancellation : mail.cancellations) {
    const auto it = sequences.find(cancellation.id);
    if (it != sequences.end()) End(*it->second, cancellation.reason, now);
  }
}

void Engine::Impl::Accept(Submission submission) {
  const std::vector<std::shared_ptr<TokenSink>> others = submission.request.other_sinks;
  const auto add = [&](Request request, uint32_t choice) {
    const SequenceId id{ToInt(submission.id) + choice};
    kv::BlockTable table = kv.NewTable(request.cache_namespace);
    auto sequence = std::make_unique<Sequence>(id, std::move(request), submission.arrival, options,
                                               std::move(table), choice);
    scheduler.Add(*sequence);
    if (const auto deadline = sequence->request().deadline) deadlines.emplace(*deadline, id);
    sequences.emplace(id, std::move(sequence));
    ++num_accepted;
  };
  for (size_t i = 0; i < others.size(); ++i) {
    Request request = submission.request;
    request.sink = others[i];
    request.other_sinks.clear();
    request.bypass_prefix_cache = false;
    request.prompt_logprobs.reset();
    add(std::move(request), static_cast<uint32_t>(i + 1));
  }
  add(std::move(submission.request), 0);
}

std::vector<Sequence*> Engine::Impl::OthersOf(const Sequence& choice0) const {
  std::vector<Sequence*> others;
  for (int32_t i = 1; i < choice0.request().num_choices(); ++i) {
    const auto it = sequences.find(SequenceId{ToInt(choice0.id()) + static_cast<uint64_t>(i)});
    if (it != sequences.end()) others.push_back(it->second.get());
  }
  return others;
}

// Choice 0 has its prompt in the cache, or will not get it there soon: the others are on their own.
void Engine::Impl::ReleaseOthers(const Sequence& choice0) {
  for (Sequence* other : OthersOf(choice0)) other->Release();
}

void Engine::Impl::ExpireDeadlines(Time now) {
  while (!deadlines.empty() && deadlines.begin()->first <= now) {
    End(*sequences.at(deadlines.begin()->second), EndReason::kDeadline, now);
  }
  GiveUpLate(now);
  for (auto it = stalled.begin(); it != stalled.end();) {
    Sequence& sequence = *sequences.at(it->first);
    const bool over = it->second <= now;
    ++it;  // End takes it out
    if (over) End(sequence, EndReason::kCancelled, now, ReaderStalled(options.stall_limit));
  }
}

// While other requests wait behind them, those in the queue that would not be done in time cost no compute. A
// request goes as a whole, and before any of its choices has started: while choice 0 is queued, all are.
void Engine::Impl::GiveUpLate(Time now) {
  std::vector<Sequence*> late;
  const Duration longest = drain.Service(std::numeric_limits<int32_t>::max());
  for (const auto& [deadline, id] : deadlines) {
    if (deadline > now + longest) break;
    Sequence& sequence = *sequences.at(id);
    const bool queued = sequence.choice() == 0 && !sequence.ever_admitted();
    if (queued && deadline <= now + drain.Service(sequence.request().max_tokens)) late.push_back(&sequence);
  }
  for (Sequence* sequence : late) {
    // The last one tries: else nothing might ever correct the estimate.
    if (scheduler.waiting().num_queued() == 1) return;
    std::vector<Sequence*> choices = OthersOf(*sequence);
    choices.push_back(sequence);
    for (Sequence* choice : choices) {
      End(*choice, EndReason::kDeadline, now,
          DeadlineExceeded("the deadline cannot be met: what is left of it is less than an answer takes"));
    }
  }
}

void Engine::Impl::PauseStalled(Time now) {
  for (Sequence* sequence : scheduler.PauseStalled(now)) {
    stalled.emplace(sequence->id(), now + options.stall_limit);
    ReleaseOthers(*sequence);
    untold.AddPause(*sequence);
  }
}

void Engine::Impl::Resume(SequenceId id) {
  if (stalled.erase(id) > 0) scheduler.Resume(*sequences.at(id));
}

void Engine::Impl::End(Sequence& sequence, EndReason reason, Time now, absl::Status status) {
  scheduler.Remove(sequence);
  if (!sequence.ever_admitted() && sequence.choice() == 0) {
    ++left_requests[static_cast<size_t>(sequence.priority())];
    left_tokens += sequence.num_prompt_tokens();
  }
  ReleaseOthers(sequence);
  if (const auto deadline = sequence.request().deadline) deadlines.erase({*deadline, sequence.id()});
  stalled.erase(sequence.id());
  Outcome outcome = sequence.End(reason, std::move(status), now);
  // A deadline's end counts, too: else only the short ones would be known.
  const bool typical =
      reason == EndReason::kStop || reason == EndReason::kLength || reason == EndReason::kDeadline;
  if (typical && outcome.completion_tokens > 0) {
    drain.OnEnd(outcome.prefill - sequence.paused_in_prefill(), outcome.decode - sequence.paused_in_decode(),
                outcome.completion_tokens);
  }
  const auto it = sequences.find(sequence.id());
  std::unique_ptr<Sequence> owned = std::move(it->second);
  sequences.erase(it);
  const Duration total = now - owned->arrival();
  untold.AddEnd(std::move(owned), std::move(outcome), total);
  ++num_ended;
}

}  // namespace qanat::engine
