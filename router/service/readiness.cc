#include "router/service/readiness.h"

#include <algorithm>

namespace qanat::router {

Readiness::Readiness(rpc::Server& health, const Cluster& cluster) : health_(health), cluster_(cluster) {
  health_.SetServing("liveness", true);
  Update();
}

void Readiness::Update() {
  MutexLock lock(mu_);
  const ClusterSnapshot snapshot = cluster_.Snapshot();
  const bool serving =
      std::any_of(snapshot.workers->begin(), snapshot.workers->end(), [](const Worker& worker) {
        return worker.state == WorkerState::kReady || worker.state == WorkerState::kSuspect;
      });
  health_.SetServing("readiness", serving && !leaving_);
}

void Readiness::Leave() {
  {
    MutexLock lock(mu_);
    leaving_ = true;
  }
  Update();
}

}  // namespace qanat::router
