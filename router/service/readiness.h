// Whether this router can serve, as probes see it.
#pragma once

#include "common/base/mutex.h"
#include "common/rpc/server.h"
#include "router/cluster/cluster.h"

namespace qanat::router {

// What: keeps grpc.health.v1's `readiness` (a worker is ready, and we are not about to leave) and `liveness`
// (always, while it answers). Owns nothing; server and cluster outlive it. Threads: any. No errors.
class Readiness {
 public:
  Readiness(rpc::Server& health, const Cluster& cluster);

  // After each change of the cluster.
  void Update() EXCLUDES(mu_);
  // Not ready from now on.
  void Leave() EXCLUDES(mu_);

 private:
  rpc::Server& health_;
  const Cluster& cluster_;
  // Held while the cluster is read and the answer set, so that the latest change is told last.
  Mutex mu_;
  bool leaving_ GUARDED_BY(mu_) = false;
};

}  // namespace qanat::router
