// One generation, from the caller's request to the last message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "common/api/generate.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/hash/block_hash.h"
#include "qanat/cluster/v1/worker.pb.h"
#include "qanat/v1/inference.pb.h"
#include "worker/engine/engine.h"
#include "worker/engine/request.h"
#include "worker/service/build_request.h"
#include "worker/service/choice.h"
#include "worker/service/service_context.h"

namespace qanat::service {

class Generation;

// What: hears that a generation may have something to take. Threads: any, the engine's too; must not block,
// and is not called under a lock.
class GenerationListener {
 public:
  virtual ~GenerationListener() = default;
  virtual void OnNews(const std::shared_ptr<Generation>& generation) = 0;
};

// Why a transport aborts.
absl::Status CallerLeft();

// What: validates a request, encodes its prompt, submits it, turns the tokens of its choices into messages
// and ends it once. The unary stream and the Session are two transports over it: each takes what there is
// when it can write. Owns its choices; shared by the engine (until their ends), the transport and running
// tasks. It holds its listener until its end, so that the transport lives as long. Threads: Start once; Abort
// from any; the functions of the transport's side from one thread at a time. Nothing blocks. Errors: whatever
// goes wrong becomes end(); the text of INTERNAL is for the log and hidden by the transport.
class Generation final : public std::enable_shared_from_this<Generation> {
 public:
  Generation(const ServiceContext& context, std::shared_ptr<GenerationListener> listener);

  // Cheap checks here; encoding on the text pool, but for token ids, which need none.
  void Start(Call call);
  // Instead of Start: the Session refuses the call. Another worker may take it, as `status` says.
  void Reject(absl::Status status);
  // Ends all choices in any state, within one step of the engine. `why` is the status unless the answer is
  // complete by then. The first call counts.
  void Abort(engine::EndReason reason, absl::Status why);

  // The reader takes nothing for now, or does again.
  void SetReaderPaused(bool paused) EXCLUDES(mu_);

  // --- The transport's side ---
  // Works up what the engine has told; the functions below tell the result. It leaves tokens alone while a
  // good deal of text waits to be taken, so a slow reader costs bounded memory.
  void Advance() EXCLUDES(mu_);
  // Set once the engine took it, before there is any response: the version of the load with it in it.
  std::optional<uint64_t> accepted() const EXCLUDES(mu_);
  // Of the load without it; 0 if it was never in it. REQUIRES: end() is set.
  uint64_t end_load_version() const { return end_load_version_; }
  bool HasResponse() const { return !ready_.empty() || ChoiceWithNews().has_value(); }
  // There is another response, or tokens were left alone: call Advance() again when one is taken.
  bool HasMore() const;
  // REQUIRES: HasResponse().
  v1::GenerateResponse TakeResponse();
  // Once, when the last message has left, or nobody will hear it: the generation is live until then.
  void Release();
  // Of a call that was refused and may find a place at another worker. REQUIRES: end() is set.
  cluster::v1::Redirect redirect() const { return redirect_; }
  // Set when the response to be taken now, if there is one, is the last.
  std::optional<absl::Status> end() const { return ready_.size() <= 1 ? end_ : std::nullopt; }

 private:
  // Why it, or a choice of it, came to no good end.
  struct Aborted {
    engine::EndReason reason;
    absl::Status why;
  };

  void EncodeAndSubmit();
  void Submit(engine::Request request) EXCLUDES(mu_);
  std::shared_ptr<engine::TokenSink> SinkOf(Choice& choice);
  void Refuse(absl::Status status) EXCLUDES(mu_);
  absl::Status AbortedStatus() const EXCLUDES(mu_);
  void Notify() EXCLUDES(mu_);

  // The next one in turn, so that none waits for ever.
  std::optional<size_t> ChoiceWithNews() const;
  v1::GenerateResponse Take(size_t choice);
  void AdvanceChoice(size_t choice) EXCLUDES(mu_);
  // Lets paused choices go on that have room for a good deal.
  void ResumeIfRoom() EXCLUDES(mu_);
  void Conclude(size_t choice) EXCLUDES(mu_);
  void OnFailure(const engine::Outcome& outcome) EXCLUDES(mu_);
  void CancelChoice(size_t choice, engine::EndReason reason) EXCLUDES(mu_);
  absl::Status StatusOf(const engine::Outcome& outcome) const EXCLUDES(mu_);
  // What the whole request came to. REQUIRES: every choice is concluded.
  engine::Outcome Total() const;
  void SayTotal(const engine::Outcome& total, v1::GenerateResponse& response) const;
  void Report(const engine::Outcome& total) EXCLUDES(mu_);
  void End(absl::Status status) EXCLUDES(mu_);

  const ServiceContext& context_;

  // Of Start and EncodeAndSubmit, then constant.
  Call call_;
  api::GenerateParams params_;
  Time arrival_;

  mutable Mutex mu_;
  std::shared_ptr<GenerationListener> listener_ GUARDED_BY(mu_);
  std::optional<engine::Accepted> accepted_
      GUARDED_BY(mu_);  // by Submit: choice 0, whose id the others' follow
  std::optional<Aborted> aborted_ GUARDED_BY(mu_);
  std::optional<absl::Status> refused_ GUARDED_BY(mu_);

  // Of the transport's side.
  std::deque<Choice> choices_;  // made by Start, before anybody else; they stay where they are
  size_t num_concluded_ = 0;
  bool told_first_token_ = false;
  size_t last_taken_ = 0;                   // the choice of the last response that was not ready
  std::optional<Aborted> failure_;          // the first choice that did not end well
  std::deque<v1::GenerateResponse> ready_;  // complete, in order; the call's last one ends it
  std::optional<absl::Status> end_;
  uint64_t end_load_version_ = 0;
  cluster::v1::Redirect redirect_ = cluster::v1::REDIRECT_UNSPECIFIED;
};

}  // namespace qanat::service
