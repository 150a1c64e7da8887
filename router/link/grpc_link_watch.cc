#include "router/link/grpc_link_watch.h"

#include <memory>

#include "absl/status/statusor.h"
#include "common/api/watch.h"
#include "common/base/status_macros.h"
#include "common/rpc/status.h"

namespace qanat::router {
namespace {

using Reader = grpc::ClientReader<cluster::v1::WatchResponse>;

// Until the verdict is not kContinue, a frame is wrong (the error), or the stream ends (OK).
absl::Status HandOn(Reader& reader, LinkObserver& observer, WatchVerdict& verdict) {
  cluster::v1::WatchResponse message;
  while (verdict == WatchVerdict::kContinue && reader.Read(&message)) {
    // Of a later release.
    if (message.body_case() == cluster::v1::WatchResponse::BODY_NOT_SET) continue;
    QANAT_ASSIGN_OR_RETURN(const api::WatchFrame frame, api::FromProto(message));
    verdict = observer.OnFrame(frame);
  }
  return absl::OkStatus();
}

}  // namespace

WatchEnd FollowWatch(cluster::v1::WorkerService::Stub& stub, grpc::ClientContext& context, uint64_t router_id,
                     LinkObserver& observer) {
  const WatchPosition from = observer.OnWatchBegin();
  cluster::v1::WatchRequest request;
  request.set_router_id(router_id);
  request.set_known_epoch(from.epoch);
  request.set_known_seq(from.seq);
  const std::unique_ptr<Reader> reader = stub.Watch(&context, request);
  WatchEnd end{WatchVerdict::kContinue, absl::OkStatus()};
  end.status = HandOn(*reader, observer, end.verdict);
  if (end.verdict != WatchVerdict::kContinue || !end.status.ok()) context.TryCancel();
  cluster::v1::WatchResponse dropped;
  while (reader->Read(&dropped)) {
  }
  const absl::Status status = rpc::FromGrpc(reader->Finish());
  if (end.verdict != WatchVerdict::kContinue) return end;
  if (end.status.ok()) end.status = status.ok() ? absl::UnavailableError("it closed the watch") : status;
  observer.OnWatchEnd(end.status);
  return end;
}

}  // namespace qanat::router
