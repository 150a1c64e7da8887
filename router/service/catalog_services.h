// What callers may ask about the cluster itself: its models, its workers.
#pragma once

#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "qanat/v1/cluster.grpc.pb.h"
#include "qanat/v1/model.grpc.pb.h"
#include "router/cluster/cluster.h"

namespace qanat::router {

// What: qanat.v1.ModelService. Owns nothing; the cluster outlives it. Threads: gRPC's.
class ModelService final : public v1::ModelService::CallbackService {
 public:
  explicit ModelService(const Cluster& cluster) : cluster_(cluster) {}
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override;

 private:
  const Cluster& cluster_;
};

// What: qanat.v1.ClusterService: of each worker what the router knows without asking: its place, state,
// model, epoch and open calls, and what its Watch told of load and cache. Owns nothing; the cluster outlives
// it. Threads: gRPC's.
class ClusterService final : public v1::ClusterService::CallbackService {
 public:
  explicit ClusterService(const Cluster& cluster) : cluster_(cluster) {}
  grpc::ServerUnaryReactor* GetCluster(grpc::CallbackServerContext* context,
                                       const v1::GetClusterRequest* request,
                                       v1::GetClusterResponse* response) override;

 private:
  const Cluster& cluster_;
};

}  // namespace qanat::router
