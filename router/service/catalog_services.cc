#include "router/service/catalog_services.h"

#include "common/api/unknown_fields.h"
#include "common/rpc/status.h"
#include "router/snapshot/cluster_snapshot.h"

namespace qanat::router {
namespace {

v1::WorkerState ToProto(WorkerState state) {
  switch (state) {
    case WorkerState::kConnecting:
      return v1::WORKER_STATE_CONNECTING;
    case WorkerState::kReady:
      return v1::WORKER_STATE_READY;
    case WorkerState::kSuspect:
      return v1::WORKER_STATE_SUSPECT;
    case WorkerState::kDraining:
      return v1::WORKER_STATE_DRAINING;
    case WorkerState::kDown:
      return v1::WORKER_STATE_DOWN;
  }
  return v1::WORKER_STATE_UNSPECIFIED;
}

v1::Model ToProto(const Model& model) {
  v1::Model out;
  out.set_id(model.id);
  out.set_context_length(model.context_length);
  out.set_block_size(model.block_size);
  out.set_vocab_size(model.vocab_size);
  out.set_architecture(model.architecture);
  out.set_quantization(model.quantization);
  out.set_chat_template(model.chat_template != nullptr);
  return out;
}

v1::WorkerStatus ToProto(const Worker& worker, const WorkerLoad& load, const WorkerWatch::Status& watch) {
  v1::WorkerStatus out;
  out.set_id(worker.address);
  out.set_address(worker.address);
  out.set_state(ToProto(worker.state));
  out.set_epoch(worker.epoch);
  out.set_total_blocks(worker.total_blocks);
  out.set_free_blocks(load.free_blocks);
  out.set_cached_blocks(load.cached_blocks);
  out.set_running(load.running);
  out.set_waiting(load.waiting);
  out.set_in_flight(load.in_flight);
  out.set_index_blocks(watch.index_blocks);
  out.set_digest_ok(watch.in_step);
  if (worker.model != nullptr) out.set_model(worker.model->id);
  return out;
}

// Answers from what is at hand, unless the request asks for something of a later release.
template <typename Request, typename Fill>
grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const Request& request, Fill fill) {
  const absl::Status status = api::CheckNoUnknownFields(request);
  if (status.ok()) fill();
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(rpc::ToGrpc(status));
  return reactor;
}

}  // namespace

grpc::ServerUnaryReactor* ModelService::ListModels(grpc::CallbackServerContext* context,
                                                   const v1::ListModelsRequest* request,
                                                   v1::ListModelsResponse* response) {
  return Answer(context, *request, [&] {
    for (const auto& model : ModelsOf(cluster_.Snapshot())) *response->add_models() = ToProto(*model);
  });
}

grpc::ServerUnaryReactor* ClusterService::GetCluster(grpc::CallbackServerContext* context,
                                                     const v1::GetClusterRequest* request,
                                                     v1::GetClusterResponse* response) {
  return Answer(context, *request, [&] {
    const ClusterSnapshot snapshot = cluster_.Snapshot();
    for (size_t i = 0; i < snapshot.size(); ++i) {
      const WorkerId id{static_cast<uint16_t>(i)};
      *response->add_workers() = ToProto(snapshot.worker(id), snapshot.load(id), cluster_.WatchStatus(id));
    }
  });
}

}  // namespace qanat::router
