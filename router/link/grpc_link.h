// A WorkerLink over gRPC.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "qanat/cluster/v1/worker.grpc.pb.h"
#include "router/link/backoff.h"
#include "router/link/grpc_link_session.h"
#include "router/link/tokenizer_store.h"
#include "router/link/worker_link.h"

namespace qanat::router {

// What: one channel to one worker, with one Session and one Watch on it. Owns them and a thread that connects
// again and again, and follows the Watch while the Session lives. Threads: as WorkerLink. Errors: as
// WorkerLink.
//
// A worker whose process ends is left at once (its connection is reset); one that is cut off or stopped,
// after the keepalive of common/rpc/options.h.
class GrpcLink final : public WorkerLink {
 public:
  struct Options {
    const Clock& clock;          // outlives the link
    TokenizerStore& tokenizers;  // outlives the link
    uint64_t seed;               // of the backoff's jitter
    uint64_t router_id = 0;      // drawn at this router's start
    Duration first_delay = std::chrono::milliseconds(50);
    Duration longest_delay = std::chrono::seconds(1);
    std::function<void(Duration)> on_relay_cpu = [](Duration) {};
  };

  GrpcLink(const std::string& address, const Options& options);
  ~GrpcLink() override;

  void Open(LinkObserver& observer) override;
  void Close() override EXCLUDES(mu_);
  std::optional<CallId> Start(const WorkerCall& call, std::shared_ptr<CallSink> sink) override EXCLUDES(mu_);
  void Cancel(CallId id) override EXCLUDES(mu_);
  void SetPaused(CallId id, bool paused) override EXCLUDES(mu_);

 private:
  void Run() EXCLUDES(mu_);
  // From connecting to the end of the session. True when the session lasted.
  bool Connect() EXCLUDES(mu_);
  // Follows one Watch after another, until the session is over.
  void WatchSession() EXCLUDES(mu_);
  absl::Status RunCall(Duration timeout, const std::function<absl::Status(grpc::ClientContext&)>& call)
      EXCLUDES(mu_);
  // False when the link was closed.
  bool Pause(Duration delay) EXCLUDES(mu_);
  // False when the session is over. Unset: waits for that.
  bool PauseInSession(std::optional<Duration> delay) EXCLUDES(mu_);
  bool IsClosed() EXCLUDES(mu_);
  std::shared_ptr<GrpcLinkSession> Session() EXCLUDES(mu_);

  const Options options_;
  const std::shared_ptr<grpc::Channel> channel_;  // gRPC's type
  const std::unique_ptr<cluster::v1::WorkerService::Stub> stub_;
  Backoff backoff_;                   // the thread's
  Backoff watch_backoff_;             // the thread's
  LinkObserver* observer_ = nullptr;  // set by Open
  std::thread thread_;
  // Over all sessions, so that a late Cancel never means a call of the next one.
  std::atomic<CallId> last_id_ = 0;

  Mutex mu_;
  CondVar changed_;
  bool closed_ GUARDED_BY(mu_) = false;
  // Of the RunCall or the Watch under way; shared with whoever cancels it.
  std::shared_ptr<grpc::ClientContext> call_ GUARDED_BY(mu_);
  // Shared with gRPC's threads while its stream is open, and with callers of Start.
  std::shared_ptr<GrpcLinkSession> session_ GUARDED_BY(mu_);
};

}  // namespace qanat::router
