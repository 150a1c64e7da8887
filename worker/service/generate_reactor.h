// A Generate call of its own: one generation, one stream.
#pragma once

#include <memory>
#include <optional>

#include "common/base/clock.h"
#include "common/rpc/stall_sweeper.h"
#include "common/rpc/write_gate.h"
#include "grpcpp/support/server_callback.h"
#include "qanat/v1/inference.pb.h"
#include "worker/service/generation.h"
#include "worker/service/serial_task.h"
#include "worker/service/service_context.h"

namespace qanat::service {

// What: writes a generation's messages whenever the stream takes one; what comes meanwhile is in the next.
// Owns itself from Begin until gRPC's OnDone. Threads: reactions on gRPC's; Drain on the stream pool, never
// twice at once. Nothing blocks. Errors: end the call.
class GenerateReactor final : public grpc::ServerWriteReactor<v1::GenerateResponse>,
                              public GenerationListener,
                              public rpc::WritingStream,
                              public std::enable_shared_from_this<GenerateReactor> {
 public:
  GenerateReactor(const ServiceContext& context, grpc::CallbackServerContext& call);

  // Once, right after it was made. `request` stays gRPC's and is read until the generation is submitted.
  void Begin(const v1::GenerateRequest& request);

  void OnNews(const std::shared_ptr<Generation>& generation) override;
  void EndIfStalled(Time time) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  void Drain();

  const ServiceContext& context_;
  std::optional<Time> deadline_;
  std::shared_ptr<Generation> generation_;
  SerialTask drain_;
  rpc::WriteGate gate_;
  std::shared_ptr<GenerateReactor> self_;

  // Of Drain.
  v1::GenerateResponse message_;
  bool finished_ = false;
};

}  // namespace qanat::service
