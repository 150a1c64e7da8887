// A router and workers as processes, with the real model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "qanat/v1/cluster.grpc.pb.h"
#include "tests/integration/client.h"
#include "tests/integration/metrics_page.h"
#include "tests/integration/process.h"

namespace qanat::integration {

using Flags = std::vector<std::string>;

// The path of a built program.
std::string Program(const std::string& name);
// The real model (QANAT_MODEL); empty, and a failure of the test, when it is not there.
std::string ModelPath();

// A program that listens.
struct Server {
  std::unique_ptr<Process> process;
  std::string address;
  std::string metrics;
  std::string health;
  std::string log;  // the file with its standard error
};

// Where a program says it listens: "... ready on A (metrics B, health C) ...". Ports 0 in `command`. An empty
// address is a failure of the test.
Server StartServer(const Flags& command);
// With the real model and one thread; `listen` may name a port that was free before.
Server StartWorker(const Flags& flags = {}, const std::string& listen = "127.0.0.1:0");
Server StartRouter(const std::vector<std::string>& workers, const Flags& flags = {});

// What: workers and a router that sees them all ready. Owns the processes. Threads: one at a time.
class Cluster {
 public:
  // `flags`: of each worker; `router_flags`: of the router.
  explicit Cluster(int workers, const Flags& flags = {}, const Flags& router_flags = {});

  Server& worker(size_t i) { return workers_[i]; }
  size_t size() const { return workers_.size(); }
  Server& router() { return router_; }
  Client& client() { return *client_; }

  MetricsPage RouterMetrics() const { return MetricsPage::Scrape(router_.metrics); }
  MetricsPage WorkerMetrics(size_t i) const { return MetricsPage::Scrape(workers_[i].metrics); }
  // What GetCluster says of a worker; empty when the router does not answer.
  v1::WorkerStatus StatusOf(size_t worker) const;
  // The router's view, by address: "ready" and so on.
  std::string StateOf(size_t worker) const;
  // Waits until it is that; false after `patience`.
  bool AwaitState(size_t worker, const std::string& state, std::chrono::milliseconds patience);

 private:
  std::vector<Server> workers_;
  Server router_;
  std::unique_ptr<Client> client_;
};

// Asks until it is true, `patience` at most. For what can only be asked, not be told.
template <typename Condition>
bool Eventually(Condition condition, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return condition();
  }
  return true;
}

}  // namespace qanat::integration
