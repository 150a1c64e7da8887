#include "worker/service/tokenizer_reactor.h"

#include <utility>

#include "common/base/error.h"
#include "common/rpc/status.h"
#include "grpcpp/server_context.h"
#include "worker/service/generation.h"

namespace qanat::service {
namespace {

constexpr size_t kChunkBytes = 256 << 10;

}  // namespace

void TokenizerReactor::Begin() {
  self_ = shared_from_this();
  context_.stall_sweeper.Add(self_);
  Next();
}

void TokenizerReactor::Close(absl::Status status) {
  MutexLock lock(mu_);
  if (!closed_.has_value()) closed_ = std::move(status);
}

void TokenizerReactor::EndIfStalled(Time time) {
  if (!gate_.BeganBefore(time)) return;
  Close(ReaderStalled(context_.stall_sweeper.limit()));
  gate_.Cancel();
}

void TokenizerReactor::Next() {
  std::optional<absl::Status> closed;
  {
    MutexLock lock(mu_);
    closed = closed_;
  }
  gate_.Begin(context_.clock.Now(), /*drain_after=*/false);
  if (closed.has_value()) return Finish(rpc::ToGrpc(*closed));
  const std::string_view chunk = rest_.substr(0, kChunkBytes);
  rest_.remove_prefix(chunk.size());
  message_.set_chunk(std::string(chunk));
  if (!rest_.empty()) return StartWrite(&message_);
  message_.set_sha256(sha256_);
  StartWriteAndFinish(&message_, grpc::WriteOptions(), rpc::ToGrpc(absl::OkStatus()));
}

void TokenizerReactor::OnWriteDone(bool ok) {
  gate_.End();
  if (!ok) Close(CallerLeft());
  Next();
}

void TokenizerReactor::OnDone() {
  gate_.Close();
  context_.stall_sweeper.Remove(this);
  const std::shared_ptr<TokenizerReactor> self = std::move(self_);
}

}  // namespace qanat::service
