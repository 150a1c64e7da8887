// A router fetches the tokenizer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/mutex.h"
#include "common/rpc/stall_sweeper.h"
#include "common/rpc/write_gate.h"
#include "grpcpp/support/server_callback.h"
#include "qanat/cluster/v1/worker.pb.h"
#include "worker/service/cluster_stream.h"
#include "worker/service/service_context.h"

namespace qanat::service {

// What: sends bytes in chunks, the digest with the last one. Owns itself from Begin until gRPC's OnDone; the
// bytes and the digest outlive it. Threads: reactions on gRPC's, one step after the other; Close any. Errors:
// end the call.
class TokenizerReactor final : public grpc::ServerWriteReactor<cluster::v1::GetTokenizerResponse>,
                               public ClusterStream,
                               public rpc::WritingStream,
                               public std::enable_shared_from_this<TokenizerReactor> {
 public:
  TokenizerReactor(const ServiceContext& context, const grpc::CallbackServerContext& call,
                   std::string_view bytes, const std::string& sha256)
      : context_(context), gate_(call), rest_(bytes), sha256_(sha256) {}

  // Once, right after it was made.
  void Begin();
  // Instead of the next chunk.
  void Close(absl::Status status) override EXCLUDES(mu_);

  void EndIfStalled(Time time) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

 private:
  void Next() EXCLUDES(mu_);

  const ServiceContext& context_;
  rpc::WriteGate gate_;
  std::shared_ptr<TokenizerReactor> self_;

  // Of Next.
  std::string_view rest_;
  const std::string& sha256_;
  cluster::v1::GetTokenizerResponse message_;

  Mutex mu_;
  std::optional<absl::Status> closed_ GUARDED_BY(mu_);
};

}  // namespace qanat::service
