// One request's way through the cluster.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/hash/block_hash.h"
#include "router/cluster/cluster.h"
#include "router/forward/forward_metrics.h"
#include "router/forward/forwarder.h"
#include "router/link/worker_link.h"
#include "router/routing/policy.h"

namespace qanat::router {

// What: the state machine of one request: attempts, one after another, until one ends it. Owns the request
// and its place in the ledger. Lives while a link or the caller holds it. Threads: any; the sink is called by
// one at a time.
//
// Invariants: (1) at most one attempt is current, and only its events count; (2) dispatch_ is set exactly
// while the current attempt may still be running on a worker; (3) no attempt begins after the first response
// was passed on, nor after Cancel.
class Stream final : public ForwardedStream, public std::enable_shared_from_this<Stream> {
 public:
  // All outlive the stream.
  struct Parts {
    Cluster& cluster;
    const RoutingPolicy& policy;
    const Clock& clock;
    ForwardMetrics& metrics;
    const hash::HashKey& hash_key;
  };

  Stream(const Parts& parts, ForwardRequest request, std::shared_ptr<StreamSink> sink);

  // Once.
  void Begin();
  void Cancel() override EXCLUDES(mu_);
  void SetPaused(bool paused) override EXCLUDES(mu_);

 private:
  class Attempt;
  // A worker, and what is expected of it.
  struct Chosen {
    Dispatch dispatch;
    Route route;
    Time at;
  };
  // How far a choice has come, as the caller has seen it.
  struct Choice {
    int32_t next_token = 0;
    v1::FinishReason finish = v1::FINISH_REASON_UNSPECIFIED;  // unspecified: it goes on
  };

  // Finds a worker and starts the call there; ends the stream when there is none. `refusal`: what the attempt
  // before ended with, which says more than "no worker".
  void TryWorkers(const absl::Status& refusal) EXCLUDES(mu_);
  // The worker that the policy picks, counted in the ledger.
  absl::StatusOr<Chosen> Choose();
  // False when the worker cannot be reached now.
  bool StartAttempt(Chosen chosen) EXCLUDES(mu_);
  // The stream may not go on: cancelled, or out of time.
  absl::Status CheckAlive() const EXCLUDES(mu_);
  // Makes the worker pause or go on, as the caller wants it last.
  void TellPaused() EXCLUDES(mu_);
  void Finish(const absl::Status& status);

  // Of attempt `number`.
  void OnAccepted(int number, uint64_t load_version) EXCLUDES(mu_);
  void OnResponse(int number, v1::GenerateResponse response) EXCLUDES(mu_);
  // `redirect`: the worker did not take it.
  void OnEnd(int number, const absl::Status& status, uint64_t load_version,
             std::optional<Redirect> redirect = std::nullopt) EXCLUDES(mu_);

  // Counts how the attempt ended.
  bool MayTryAgain(const absl::Status& status, bool redirected) REQUIRES(mu_);
  // The caller has all that was asked for.
  bool IsAnswered() const REQUIRES(mu_);
  // The `finish` ERROR of each choice that had not finished, for callers of a worker that was lost.
  std::vector<v1::GenerateResponse> LastWords(const std::string& worker) REQUIRES(mu_);

  const Parts parts_;
  const std::shared_ptr<StreamSink> sink_;  // shared with the caller's side
  const std::shared_ptr<const Model> model_;
  const int32_t prompt_tokens_;
  const bool wants_token_ids_;
  std::vector<hash::BlockHash> blocks_;  // of the prompt; constant after construction
  Duration hashing_{};                   // what they cost, until a decision has counted it
  WorkerCall call_;                      // constant after construction
  RouteRequest route_;                   // touched by one attempt after the other

  mutable Mutex mu_;
  int attempt_ GUARDED_BY(mu_) = 0;    // number of the current one; 0: none yet
  int losses_ GUARDED_BY(mu_) = 0;     // attempts whose worker was lost
  int redirects_ GUARDED_BY(mu_) = 0;  // attempts that were not taken
  bool accepted_ GUARDED_BY(mu_) = false;
  bool passed_on_ GUARDED_BY(mu_) = false;   // a response reached the sink
  bool has_tokens_ GUARDED_BY(mu_) = false;  // one with tokens did
  bool cancelled_ GUARDED_BY(mu_) = false;
  bool paused_ GUARDED_BY(mu_) = false;       // the caller takes nothing for now
  bool told_paused_ GUARDED_BY(mu_) = false;  // what the current attempt's worker was told
  bool telling_ GUARDED_BY(mu_) = false;      // it is being told
  std::optional<Dispatch> dispatch_ GUARDED_BY(mu_);
  Route expected_ GUARDED_BY(mu_){};  // of the current attempt, as its decision saw it
  Time chosen_at_ GUARDED_BY(mu_){};
  std::optional<CallId> call_id_ GUARDED_BY(mu_);
  std::vector<Choice> choices_ GUARDED_BY(mu_);
};

}  // namespace qanat::router
