// qanat-router: puts the router together and runs it until a signal.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/api/limits.h"
#include "common/base/clock.h"
#include "common/base/cpu_topology.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/base/task_pool.h"
#include "common/hash/block_hash.h"
#include "common/metrics/exporter.h"
#include "common/rpc/server.h"
#include "common/rpc/signals.h"
#include "common/rpc/stall_sweeper.h"
#include "router/admission/admission.h"
#include "router/cluster/cluster.h"
#include "router/cluster/ticker.h"
#include "router/flags.h"
#include "router/forward/forwarder.h"
#include "router/link/grpc_link.h"
#include "router/link/tokenizer_store.h"
#include "router/routing/registry.h"
#include "router/service/catalog_services.h"
#include "router/service/inference_service.h"
#include "router/service/readiness.h"
#include "router/service/router_metrics.h"
#include "router/service/service_parts.h"

namespace qanat::router {
namespace {

// After SIGTERM: how long calls are still taken, until those who route by readiness have heard of it; and how
// long those that are open then may go on.
constexpr Duration kGrace = std::chrono::seconds(1);
constexpr Duration kDrainLimit = std::chrono::seconds(30);
// How long a caller may take nothing of what is written to him; a worker waits as long by default.
constexpr Duration kStallLimit = std::chrono::seconds(30);
// Texts that wait for a thread of the text pool, and the bytes of those to tokenize or detokenize: prompts of
// Generate are bounded by admission.
constexpr size_t kTextQueue = 4096;
constexpr int64_t kTextBytes = 64 << 20;

// What: all parts of a router. Members in the order in which they need each other: what is declared first is
// used by what comes later, and by the links until the cluster is closed.
class Router {
 public:
  Router(const Flags& flags, const hash::HashKey& hash_key, std::unique_ptr<RoutingPolicy> policy)
      : policy_(std::move(policy)),
        cluster_(hash_key, clock_, [this] { OnClusterChange(); }),
        metrics_(exporter_, policy_->name()),
        admission_(flags.admission),
        forwarder_(cluster_, *policy_, clock_, metrics_, hash_key),
        text_pool_(ReadCpuTopology().ComputeThreads(), kTextQueue, kTextBytes),
        stall_sweeper_(kStallLimit, clock_),
        parts_{cluster_,   admission_,     forwarder_,
               text_pool_, stall_sweeper_, metrics_,
               clock_,     hash_key,       [this] { return random_.Draw(); }},
        inference_(parts_),
        models_(cluster_),
        cluster_service_(cluster_) {}

  // Listens, then turns to the workers.
  absl::Status Start(const Flags& flags) {
    QANAT_ASSIGN_OR_RETURN(health_, rpc::Server::Start({.listen = flags.health_listen, .services = {}}));
    QANAT_ASSIGN_OR_RETURN(server_,
                           rpc::Server::Start({.listen = flags.listen,
                                               .services = {&inference_, &models_, &cluster_service_},
                                               .max_receive_bytes = api::kMaxRequestBytes}));
    readiness_ = std::make_unique<Readiness>(*health_, cluster_);
    metrics_.Watch(cluster_);
    exporter_.AddProcessMetrics("router");
    QANAT_ASSIGN_OR_RETURN(const std::string metrics_address, exporter_.Listen(flags.metrics_listen));
    for (const std::string& worker : flags.workers) {
      metrics_.AddWorker(worker);
      cluster_.Add(worker,
                   std::make_unique<GrpcLink>(worker, GrpcLink::Options{.clock = clock_,
                                                                        .tokenizers = tokenizers_,
                                                                        .seed = random_.Draw(),
                                                                        .router_id = router_id_,
                                                                        .on_relay_cpu = [this](Duration cpu) {
                                                                          metrics_.OnRelayCpu(cpu);
                                                                        }}));
    }
    ticker_.emplace(Cluster::kTick, [this] { cluster_.Tick(); });
    std::printf("qanat-router ready on %s (metrics %s, health %s) workers=%zu\n", server_->address().c_str(),
                metrics_address.c_str(), health_->address().c_str(), flags.workers.size());
    std::fflush(stdout);
    return absl::OkStatus();
  }

  // Is not ready any more, but takes calls for a moment (none after another signal), lets open ones end, then
  // lets go of the workers.
  void Stop(rpc::TerminationSignals& signals) {
    readiness_->Leave();
    signals.WaitFor(kGrace);
    // Says why to calls that come while their clients are told to connect elsewhere.
    admission_.Close();
    server_->Shutdown(kDrainLimit);
    stall_sweeper_.Stop();
    ticker_.reset();
    cluster_.Close();
  }

 private:
  void OnClusterChange() {
    for (const auto& model : ModelsOf(cluster_.Snapshot())) metrics_.OfModel(model->id);
    readiness_->Update();
  }

  RealClock clock_;
  RandomSource random_;
  const uint64_t router_id_ = random_.Draw();
  TokenizerStore tokenizers_;
  std::unique_ptr<RoutingPolicy> policy_;
  Cluster cluster_;
  metrics::Exporter exporter_;
  RouterMetrics metrics_;
  Admission admission_;
  Forwarder forwarder_;
  TaskPool text_pool_;
  rpc::StallSweeper stall_sweeper_;
  ServiceParts parts_;
  InferenceService inference_;
  ModelService models_;
  ClusterService cluster_service_;
  std::unique_ptr<rpc::Server> health_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<Readiness> readiness_;
  std::optional<Ticker> ticker_;
};

absl::Status Run(const Flags& flags, rpc::TerminationSignals& signals) {
  hash::HashKey hash_key = hash::kPublicKey;
  if (!flags.hash_key_file.empty()) {
    QANAT_ASSIGN_OR_RETURN(hash_key, hash::LoadHashKey(flags.hash_key_file));
  }
  QANAT_ASSIGN_OR_RETURN(std::unique_ptr<RoutingPolicy> policy, MakePolicy(flags.policy));
  Router router(flags, hash_key, std::move(policy));
  QANAT_RETURN_IF_ERROR(router.Start(flags));
  spdlog::info("signal {}: leaving", signals.Wait());
  router.Stop(signals);
  return absl::OkStatus();
}

}  // namespace
}  // namespace qanat::router

int main(int argc, char** argv) {
  qanat::rpc::TerminationSignals signals;
  qanat::router::Flags flags;
  if (const auto exit = qanat::router::ParseFlags(argc, argv, flags)) return *exit;
  const absl::Status status = qanat::router::Run(flags, signals);
  if (status.ok()) return 0;
  std::fprintf(stderr, "qanat-router: %s\n", std::string(status.message()).c_str());
  return 1;
}
