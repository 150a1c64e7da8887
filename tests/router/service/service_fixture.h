// A whole router in this process, with workers that echo and a client, all over loopback.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/task_pool.h"
#include "common/metrics/exporter.h"
#include "common/rpc/options.h"
#include "common/rpc/server.h"
#include "common/rpc/stall_sweeper.h"
#include "common/rpc/status.h"
#include "gtest/gtest.h"
#include "qanat/v1/inference.grpc.pb.h"
#include "router/cluster/cluster.h"
#include "router/forward/forwarder.h"
#include "router/link/grpc_link.h"
#include "router/link/tokenizer_store.h"
#include "router/routing/least_loaded.h"
#include "router/service/catalog_services.h"
#include "router/service/inference_service.h"
#include "router/service/router_metrics.h"
#include "router/service/service_parts.h"
#include "tests/fakes/fake_worker_server.h"

namespace qanat::router {

// What a client got from one call of Generate.
struct Answer {
  std::vector<v1::GenerateResponse> responses;
  absl::Status status;

  std::string text() const {
    std::string text;
    for (const v1::GenerateResponse& response : responses) text += response.text();
    return text;
  }
};

// Lets a test look while a request waits for its worker.
class WatchedPolicy final : public RoutingPolicy {
 public:
  std::string_view name() const override { return policy_.name(); }
  Decision Pick(const RouteRequest& request, const ClusterSnapshot& snapshot) const override {
    if (on_pick) on_pick();
    return policy_.Pick(request, snapshot);
  }

  std::function<void()> on_pick;  // set while no request is under way

 private:
  LeastLoaded policy_;
};

class ServiceTest : public testing::Test {
 protected:
  using Worker = fakes::FakeWorkerServer;

  explicit ServiceTest(Duration stall_limit = std::chrono::seconds(30))
      : stall_sweeper_(stall_limit, clock_) {
    auto server =
        rpc::Server::Start({.listen = "127.0.0.1:0", .services = {&inference_, &models_, &cluster_service_}});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = rpc::MakeChannel(server_->address());
    stub_ = v1::InferenceService::NewStub(channel_);
  }
  ~ServiceTest() override {
    server_->Shutdown(Duration::zero());
    cluster_.Close();
  }

  // A worker that the router knows and that is ready.
  Worker& AddWorker(const Worker::Options& options = {}) {
    workers_.push_back(std::make_unique<Worker>(options));
    const WorkerId id = cluster_.Add(
        workers_.back()->address(),
        std::make_unique<GrpcLink>(
            workers_.back()->address(),
            GrpcLink::Options{
                .clock = clock_, .tokenizers = store_, .seed = 1, .on_relay_cpu = [this](Duration cpu) {
                  metrics_.OnRelayCpu(cpu);
                }}));
    EXPECT_TRUE(Await([&] { return cluster_.Snapshot().worker(id).state == WorkerState::kReady; }));
    return *workers_.back();
  }

  // Waits until a change of the cluster or the end of a call makes it true; 10 seconds at most.
  template <typename Condition>
  bool Await(Condition condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    MutexLock lock(mu_);
    while (!condition()) {
      if (std::chrono::steady_clock::now() >= until) return false;
      changed_.WaitFor(mu_, std::chrono::milliseconds(2));
    }
    return true;
  }

  static v1::GenerateRequest Ask(const std::string& text) {
    v1::GenerateRequest request;
    request.set_text(text);
    return request;
  }
  Answer Generate(const v1::GenerateRequest& request, Duration timeout = std::chrono::seconds(10)) {
    grpc::ClientContext context;
    rpc::SetDeadline(context, clock_.Now() + timeout, clock_);
    return Read(*stub_->Generate(&context, request));
  }
  static Answer Read(grpc::ClientReader<v1::GenerateResponse>& reader) {
    Answer answer;
    v1::GenerateResponse response;
    while (reader.Read(&response)) answer.responses.push_back(response);
    answer.status = rpc::FromGrpc(reader.Finish());
    return answer;
  }
  int InFlight(size_t worker = 0) const { return cluster_.Snapshot().loads[worker].in_flight; }

  // One token, `letter`, at `position`.
  static v1::GenerateResponse Letter(int position, char letter) {
    v1::GenerateResponse response;
    response.set_first_token(position);
    response.add_token_ids(5 + letter);
    response.set_text(std::string(1, letter));
    return response;
  }

  std::vector<std::unique_ptr<Worker>> workers_;
  RealClock clock_;
  TokenizerStore store_;
  Mutex mu_;
  CondVar changed_;
  std::atomic<uint64_t> seeds_ = 1000;
  Cluster cluster_{hash::kPublicKey, clock_, [this] { changed_.NotifyAll(); }};
  metrics::Exporter exporter_;
  RouterMetrics metrics_{exporter_, "least_loaded"};
  WatchedPolicy policy_;
  Admission admission_{AdmissionOptions{.queue_requests = 3}};
  Forwarder forwarder_{cluster_, policy_, clock_, metrics_, hash::kPublicKey};
  TaskPool text_pool_{2, 100, 1 << 20};
  rpc::StallSweeper stall_sweeper_;
  ServiceParts parts_{cluster_,   admission_,       forwarder_,
                      text_pool_, stall_sweeper_,   metrics_,
                      clock_,     hash::kPublicKey, [this] { return ++seeds_; }};
  InferenceService inference_{parts_};
  ModelService models_{cluster_};
  ClusterService cluster_service_{cluster_};
  std::unique_ptr<rpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::InferenceService::Stub> stub_;
};

}  // namespace qanat::router
