// One router's Watch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "common/base/mutex.h"
#include "common/rpc/stall_sweeper.h"
#include "common/rpc/write_gate.h"
#include "grpcpp/support/server_callback.h"
#include "qanat/cluster/v1/worker.pb.h"
#include "worker/service/cluster_stream.h"
#include "worker/service/serial_task.h"
#include "worker/service/service_context.h"
#include "worker/service/watch/state_publisher.h"

namespace qanat::service {

// What: writes the frames of one subscription, one at a time, as fast as the router takes them. What a slow
// router has not taken waits nowhere: it gets a snapshot when it has fallen too far behind, and one that
// takes nothing for the stall limit loses the stream. Owns itself from Begin until gRPC's OnDone. Threads:
// reactions on gRPC's, OnFrames on the watch thread; Drain on the stream pool, never twice at once. Nothing
// blocks. Errors: end the call.
class WatchReactor final : public grpc::ServerWriteReactor<cluster::v1::WatchResponse>,
                           public WatchListener,
                           public ClusterStream,
                           public rpc::WritingStream,
                           public std::enable_shared_from_this<WatchReactor> {
 public:
  WatchReactor(const ServiceContext& context, grpc::CallbackServerContext& call);

  // Once, right after it was made.
  void Begin(const cluster::v1::WatchRequest& request);

  void OnFrames() override;
  void EndIfStalled(Time time) override;
  void Close(absl::Status status) override EXCLUDES(mu_);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  void Drain() EXCLUDES(mu_);

  const ServiceContext& context_;
  SerialTask drain_;
  rpc::WriteGate gate_;
  std::shared_ptr<WatchReactor> self_;
  uint64_t known_epoch_ = 0;  // the router's, as of Begin
  uint64_t known_seq_ = 0;

  Mutex mu_;
  std::optional<absl::Status> closed_ GUARDED_BY(mu_);

  // Of Drain.
  std::unique_ptr<WatchSubscription> subscription_;
  cluster::v1::WatchResponse message_;
  bool finished_ = false;
};

}  // namespace qanat::service
