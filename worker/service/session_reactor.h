// All requests of one router, on one stream.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/base/mutex.h"
#include "common/rpc/stall_sweeper.h"
#include "common/rpc/write_gate.h"
#include "grpcpp/support/server_callback.h"
#include "qanat/cluster/v1/worker.pb.h"
#include "worker/service/cluster_stream.h"
#include "worker/service/generation.h"
#include "worker/service/serial_task.h"
#include "worker/service/service_context.h"

namespace qanat::service {

// What: starts and cancels generations as a router asks, and tells the events of all of them in one message
// whenever the stream takes one. When the stream ends, by either side, its generations are cancelled. Owns
// itself from Begin until gRPC's OnDone, and its calls until their end is told. Threads: reactions on gRPC's;
// Drain on the stream pool, never twice at once. Nothing blocks. Errors: a call's are its own CallEnd; a
// router that breaks the protocol loses the stream.
class SessionReactor final
    : public grpc::ServerBidiReactor<cluster::v1::SessionRequest, cluster::v1::SessionResponse>,
      public ClusterStream,
      public rpc::WritingStream,
      public std::enable_shared_from_this<SessionReactor> {
 public:
  SessionReactor(const ServiceContext& context, grpc::CallbackServerContext& call);

  // Once, right after it was made.
  void Begin();
  // After what still runs on it was cancelled and told.
  void Close(absl::Status status) override EXCLUDES(mu_);

  void EndIfStalled(Time time) override EXCLUDES(mu_);
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override EXCLUDES(mu_);
  void OnCancel() override;
  void OnDone() override;

 private:
  // One call: hears its generation's news for the session.
  struct SessionCall final : public GenerationListener, public std::enable_shared_from_this<SessionCall> {
    void OnNews(const std::shared_ptr<Generation>&) override { session->MarkDirty(shared_from_this()); }

    uint64_t id = 0;
    std::shared_ptr<SessionReactor> session;  // shared: a call keeps its stream until it has ended
    std::shared_ptr<Generation> generation;
    // Of Drain.
    bool told_accepted = false;
    bool told_end = false;
    bool waits = false;  // in waiting_
  };

  absl::Status Handle(const std::shared_ptr<cluster::v1::SessionRequest>& request) EXCLUDES(mu_);
  absl::Status HandleStart(const std::shared_ptr<cluster::v1::SessionRequest>& request) EXCLUDES(mu_);
  // Null: it has ended. Shared: the reaction may outlast the call.
  std::shared_ptr<SessionCall> Find(uint64_t id) EXCLUDES(mu_);
  void MarkDirty(std::shared_ptr<SessionCall> call) EXCLUDES(mu_);

  void Drain() EXCLUDES(mu_);
  void AdvanceDirty() EXCLUDES(mu_);
  // Fills message_ with the events of calls, up to a bound.
  void CollectEvents() EXCLUDES(mu_);
  // The events of the last call, from `first_event` on, begin the next message instead.
  void PutOff(const SessionCall& call, int first_event);
  void AddEvents(SessionCall& call) EXCLUDES(mu_);
  // The ends in message_ have left, or nobody hears them.
  void ReleaseEnded();
  bool Broken() EXCLUDES(mu_);
  void FinishIfOver() EXCLUDES(mu_);

  const ServiceContext& context_;
  SerialTask drain_;
  rpc::WriteGate gate_;
  std::shared_ptr<SessionReactor> self_;
  std::shared_ptr<cluster::v1::SessionRequest> request_;  // of the read under way

  Mutex mu_;
  std::unordered_map<uint64_t, std::shared_ptr<SessionCall>> calls_ GUARDED_BY(mu_);  // whose end is not told
  std::vector<std::shared_ptr<SessionCall>> dirty_ GUARDED_BY(mu_);                   // with news
  std::optional<absl::Status> closed_ GUARDED_BY(mu_);
  bool broken_ GUARDED_BY(mu_) = false;  // a write failed: nobody reads
  bool over_ GUARDED_BY(mu_) = false;    // Finish was called: no call may begin

  // Of Drain.
  std::deque<std::shared_ptr<SessionCall>> waiting_;  // advanced, something to tell
  struct {
    google::protobuf::RepeatedPtrField<cluster::v1::CallEvent> events;
    std::vector<std::shared_ptr<Generation>> ended;
  } overflow_;  // of the next message
  // Of Drain, and while a write is under way of its end.
  cluster::v1::SessionResponse message_;
  std::vector<std::shared_ptr<Generation>> ended_;  // whose end is in message_
};

}  // namespace qanat::service
