// One Session stream of a gRPC link.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "qanat/cluster/v1/worker.grpc.pb.h"
#include "router/link/worker_link.h"

namespace qanat::router {

// What: all calls of this router to one worker, on one stream. Owns their sinks until their end; keeps itself
// alive from Begin() until the stream is over. Threads: any; sinks are called on gRPC's. Errors: when the
// stream breaks, `on_broken`, then every call ends with kWorkerLost, then `on_over`.
//
// Invariants: (1) one write at a time; what waits is in queue_ in order; (2) a sink is in calls_ until its
// OnEnd is decided, so that it comes once; (3) the hold on the stream is kept while a write may be started
// from outside.
class GrpcLinkSession final
    : public grpc::ClientBidiReactor<cluster::v1::SessionRequest, cluster::v1::SessionResponse> {
 public:
  struct Events {
    std::function<void(const absl::Status& why)> on_broken;
    // Nothing is called any more. Not after Abandon().
    std::function<void()> on_over;
    // A message came.
    std::function<void()> on_sign;
    // CPU time spent on handing on one message.
    std::function<void(Duration)> on_relay_cpu;
  };

  // `clock` outlives the session.
  GrpcLinkSession(const Clock& clock, Events events) : clock_(clock), events_(std::move(events)) {}

  // Opens the stream. Once. `self` is this.
  void Begin(cluster::v1::WorkerService::Stub& stub, std::shared_ptr<GrpcLinkSession> self) EXCLUDES(mu_);
  // Breaks the stream; the end comes through the events.
  void Stop() { context_.TryCancel(); }
  // Instead of Begin(): ends the calls that waited for it.
  void Abandon() EXCLUDES(mu_);

  // Calls sent before Begin() wait for it. False, and the sink not kept, when the stream is broken.
  // REQUIRES: `id` is new.
  bool Send(CallId id, const WorkerCall& call, std::shared_ptr<CallSink> sink) EXCLUDES(mu_);
  void Cancel(CallId id) EXCLUDES(mu_);
  void SetPaused(CallId id, bool paused) EXCLUDES(mu_);

 private:
  void OnReadDone(bool ok) override EXCLUDES(mu_);
  void OnWriteDone(bool ok) override EXCLUDES(mu_);
  void OnDone(const grpc::Status& status) override EXCLUDES(mu_);

  // Sends a message about an open call; nothing for one that has ended.
  void SendAbout(CallId id, cluster::v1::SessionRequest message) EXCLUDES(mu_);
  // Takes the next message to write, if it may be written now; the caller starts the write outside the lock.
  bool ClaimWrite() REQUIRES(mu_);
  void HandOn(cluster::v1::SessionResponse& message) EXCLUDES(mu_);
  void LoseCalls() EXCLUDES(mu_);

  const Clock& clock_;
  const Events events_;
  grpc::ClientContext context_;
  std::shared_ptr<GrpcLinkSession> self_;  // shared with the link; set while the stream is open
  cluster::v1::SessionResponse incoming_;  // of the read under way
  cluster::v1::SessionRequest outgoing_;   // of the write under way

  Mutex mu_;
  std::unordered_map<CallId, std::shared_ptr<CallSink>> calls_ GUARDED_BY(mu_);
  std::deque<cluster::v1::SessionRequest> queue_ GUARDED_BY(mu_);
  bool begun_ GUARDED_BY(mu_) = false;
  bool writing_ GUARDED_BY(mu_) = false;
  bool broken_ GUARDED_BY(mu_) = false;
};

}  // namespace qanat::router
