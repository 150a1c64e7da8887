// One Generate call of a client.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/api/generate.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/rpc/stall_sweeper.h"
#include "common/rpc/write_gate.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "qanat/v1/inference.pb.h"
#include "router/admission/admission.h"
#include "router/cluster/served_model.h"
#include "router/forward/forwarder.h"
#include "router/forward/outbox.h"
#include "router/service/service_parts.h"

namespace qanat::router {

// What: validates, encodes, forwards and relays one request. Owns itself until gRPC is done with it; the
// forwarded stream and the text pool may hold it a little longer. Threads: gRPC's, the text pool's and the
// links'; nothing blocks. Errors: are the call's status.
//
// Invariants: (1) one write at a time, none after Finish; (2) Finish once, when nothing is being written;
// (3) neither while it is being prepared, which has the members without a lock to itself; (4) when the caller
// is gone, or takes nothing for the stall limit, the stream is cancelled at once and what it still brings is
// dropped.
class GenerateCall final : public grpc::ServerWriteReactor<v1::GenerateResponse>,
                           public StreamSink,
                           public rpc::WritingStream {
 public:
  // The reactor of a new call.
  static grpc::ServerWriteReactor<v1::GenerateResponse>* Start(const ServiceParts& parts,
                                                               const grpc::CallbackServerContext& context,
                                                               const v1::GenerateRequest& request);

  GenerateCall(const ServiceParts& parts, const grpc::CallbackServerContext& context,
               const v1::GenerateRequest& request);

 private:
  // Checks, admits, and hands the rest to the text pool.
  absl::Status Admit();
  // On the text pool: encodes the prompt and sends the request on its way.
  absl::Status Forward();
  // The request as a worker takes it.
  ForwardRequest MakeForwardRequest(const std::vector<TokenId>& prompt, int32_t max_tokens);
  // The end of both: the call may be written to and finished from now on.
  void OnPrepared(const absl::Status& status) EXCLUDES(mu_);

  void OnResponse(v1::GenerateResponse response, int32_t tokens) override EXCLUDES(mu_);
  void OnEnd(const absl::Status& status) override EXCLUDES(mu_);
  void OnWriteDone(bool ok) override EXCLUDES(mu_);
  void OnCancel() override { Abandon(Left()); }
  void EndIfStalled(Time time) override EXCLUDES(mu_);
  void OnDone() override;

  // Why a call ends that its caller does not wait for.
  absl::Status Left() const;
  // The caller does not listen any more.
  void Abandon(const absl::Status& why) EXCLUDES(mu_);
  // Tells the worker when the caller has much to read, and when he has little again.
  void ThrottleWorker() EXCLUDES(mu_);
  bool WantsPause() const REQUIRES(mu_);
  enum class Next { kNothing, kWrite, kFinish };
  Next Advance() REQUIRES(mu_);
  void Do(Next next);
  void Observe(const v1::GenerateResponse& response, int32_t tokens) REQUIRES(mu_);

  const ServiceParts& parts_;
  const Time received_;
  const std::optional<Time> deadline_;
  std::shared_ptr<GenerateCall> self_;  // shared with the stream and the pool; until OnDone
  v1::GenerateRequest request_;         // ours: gRPC's dies with the call; until Forward
  ServedModel served_;
  api::GenerateParams params_;
  std::optional<Admission::Ticket> ticket_;
  std::optional<RouterMetrics::ModelSeries> series_;
  bool queued_ = false;  // in the metrics of the queue
  int32_t prompt_tokens_ = 0;
  v1::GenerateResponse outgoing_;  // of the write under way
  rpc::WriteGate gate_;            // of that write, or of the end

  Mutex mu_;
  Outbox outbox_ GUARDED_BY(mu_);
  std::shared_ptr<ForwardedStream> stream_ GUARDED_BY(mu_);  // shared with its link
  std::optional<absl::Status> end_ GUARDED_BY(mu_);
  bool preparing_ GUARDED_BY(mu_) = true;
  bool abandoned_ GUARDED_BY(mu_) = false;
  bool paused_ GUARDED_BY(mu_) = false;   // the worker was told to pause
  bool telling_ GUARDED_BY(mu_) = false;  // it is being told
  bool finished_ GUARDED_BY(mu_) = false;
  std::optional<Time> first_token_ GUARDED_BY(mu_);
  std::map<int32_t, std::optional<Time>> last_token_ GUARDED_BY(mu_);  // by choice
  int64_t output_tokens_ GUARDED_BY(mu_) = 0;
  int32_t cached_tokens_ GUARDED_BY(mu_) = 0;
};

}  // namespace qanat::router
