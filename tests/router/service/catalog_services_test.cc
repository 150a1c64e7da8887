#include "router/service/catalog_services.h"

#include <string>

#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "tests/router/service/service_fixture.h"

namespace qanat::router {
namespace {

class CatalogServicesTest : public ServiceTest {
 protected:
  v1::GetClusterResponse GetCluster() {
    grpc::ClientContext context;
    v1::GetClusterResponse response;
    const grpc::Status status =
        v1::ClusterService::NewStub(channel_)->GetCluster(&context, v1::GetClusterRequest(), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  v1::ListModelsResponse ListModels() {
    grpc::ClientContext context;
    v1::ListModelsResponse response;
    const grpc::Status status =
        v1::ModelService::NewStub(channel_)->ListModels(&context, v1::ListModelsRequest(), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
};

TEST_F(CatalogServicesTest, ListsTheModelsOfWorkers) {
  EXPECT_EQ(ListModels().models_size(), 0);
  AddWorker();
  AddWorker();
  const v1::ListModelsResponse response = ListModels();
  ASSERT_EQ(response.models_size(), 1);
  EXPECT_EQ(response.models(0).id(), "tiny");
  EXPECT_EQ(response.models(0).context_length(), 256);
  EXPECT_EQ(response.models(0).block_size(), 16);
  EXPECT_EQ(response.models(0).vocab_size(), 261);
  EXPECT_FALSE(response.models(0).chat_template());
}

TEST_F(CatalogServicesTest, ShowsEachWorkerWithItsOpenCalls) {
  Worker& worker = AddWorker({.mode = Worker::Mode::kHold});
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Ask("x"));
  worker.NextStart();
  const v1::GetClusterResponse response = GetCluster();
  ASSERT_EQ(response.workers_size(), 1);
  EXPECT_EQ(response.workers(0).address(), worker.address());
  EXPECT_EQ(response.workers(0).state(), v1::WORKER_STATE_READY);
  EXPECT_EQ(response.workers(0).in_flight(), 1);
  EXPECT_EQ(response.workers(0).epoch(), 1u);
  EXPECT_EQ(response.workers(0).total_blocks(), 64);
  EXPECT_EQ(response.workers(0).model(), "tiny");
  context.TryCancel();
  EXPECT_TRUE(absl::IsCancelled(Read(*reader).status));
}

TEST_F(CatalogServicesTest, RefusesFieldsOfTheFuture) {
  v1::GetClusterRequest request;
  request.GetReflection()->MutableUnknownFields(&request)->AddVarint(7, 1);
  grpc::ClientContext context;
  v1::GetClusterResponse response;
  EXPECT_EQ(v1::ClusterService::NewStub(channel_)->GetCluster(&context, request, &response).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace qanat::router
