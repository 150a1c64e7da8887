// One generation, from the caller's request to the last message.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/api/generate.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/hash/block_hash.h"
#include "qanat/v1/inference.pb.h"
#include "worker/engine/engine.h"
#include "worker/engine/request.h"
#include "worker/service/answer.h"
#include "worker/service/build_request.h"
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
absl::Status ReaderStalled(Duration limit);

// What: validates a request, encodes its prompt, submits it, turns its tokens into messages and ends it once.
// The unary stream and the Session are two transports over it: each takes what there is when it can write.
// Owns its answer; shared by the engine (until OnEnd), the transport and running tasks. It holds its listener
// until its end, so that the transport lives as long. Threads: Start once; Abort from any; OnTokens and OnEnd
// are the engine's; the functions of the transport's side from one thread at a time. Nothing blocks. Errors:
// whatever goes wrong becomes end(); the text of INTERNAL is for the log and hidden by the transport.
class Generation final : public engine::TokenSink, public std::enable_shared_from_this<Generation> {
 public:
  Generation(const ServiceContext& context, std::shared_ptr<GenerationListener> listener);

  // Cheap checks here; encoding on the text pool, but for token ids, which need none.
  void Start(Call call);
  // Instead of Start: the transport refuses the call.
  void Reject(absl::Status status);
  // Ends it in any state, within one step of the engine. `why` is the status unless the answer is complete by
  // then. The first call counts.
  void Abort(engine::EndReason reason, absl::Status why);

  void OnTokens(int32_t first, absl::Span<const TokenId> tokens) override EXCLUDES(mu_);
  int32_t Room() const override EXCLUDES(mu_);
  void OnPaused() override EXCLUDES(mu_);
  void OnEnd(const engine::Outcome& outcome) override EXCLUDES(mu_);

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
  bool HasResponse() const { return last_.has_value() || (answer_.has_value() && answer_->HasNews()); }
  // Tokens were left alone: call Advance() again when the response is taken.
  bool HasMore() const { return !backlog_.empty(); }
  // REQUIRES: HasResponse().
  v1::GenerateResponse TakeResponse();
  // Set when the response to be taken now, if there is one, is the last.
  const std::optional<absl::Status>& end() const { return end_; }

 private:
  struct Aborted {
    engine::EndReason reason;
    absl::Status why;
  };

  void EncodeAndSubmit();
  void Submit(engine::Request request) EXCLUDES(mu_);
  void Refuse(absl::Status status) EXCLUDES(mu_);
  absl::Status AbortedStatus() const EXCLUDES(mu_);
  void Cancel(Aborted aborted) EXCLUDES(mu_);
  void Notify() EXCLUDES(mu_);

  void AppendBacklog();
  int32_t RoomLocked() const REQUIRES(mu_);
  // Lets a paused sequence go on when there is room for a good deal.
  void ResumeIfRoom() EXCLUDES(mu_);
  void Conclude(const engine::Outcome& outcome);
  absl::Status StatusOf(engine::EndReason reason, const engine::Outcome& outcome) const EXCLUDES(mu_);
  v1::GenerateResponse LastResponse(engine::EndReason reason, const engine::Outcome& outcome);
  void Report(engine::EndReason reason, const engine::Outcome& outcome, const absl::Status& status)
      EXCLUDES(mu_);
  void End(absl::Status status) EXCLUDES(mu_);

  const ServiceContext& context_;

  // Of Start and EncodeAndSubmit, then constant.
  Call call_;
  api::GenerateParams params_;
  Time arrival_;

  mutable Mutex mu_;
  std::shared_ptr<GenerationListener> listener_ GUARDED_BY(mu_);
  std::optional<engine::Accepted> accepted_ GUARDED_BY(mu_);  // what Submit returned
  std::optional<Aborted> aborted_ GUARDED_BY(mu_);
  std::vector<TokenId> inbox_ GUARDED_BY(mu_);  // told, not yet worked up
  size_t backlog_size_ GUARDED_BY(mu_) = 0;     // as of the last Advance
  bool reader_paused_ GUARDED_BY(mu_) = false;  // the router asked for nothing more
  bool paused_ GUARDED_BY(mu_) = false;         // the engine computes nothing
  std::optional<engine::Outcome> outcome_ GUARDED_BY(mu_);
  std::optional<absl::Status> refused_ GUARDED_BY(mu_);

  // Of the transport's side.
  std::optional<Answer> answer_;  // made by Start, before anybody else
  std::vector<TokenId> backlog_;  // taken from the inbox, not yet in the answer
  std::optional<v1::GenerateResponse> last_;
  std::optional<absl::Status> end_;
  uint64_t end_load_version_ = 0;
};

}  // namespace qanat::service
