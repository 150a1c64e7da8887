#include "tests/integration/cluster.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_join.h"

namespace qanat::integration {
namespace {

constexpr auto kStart = std::chrono::seconds(30);

// One file a program of a test, so that a failure can be read.
std::string LogPath(const std::string& program) {
  static int number = 0;
  const std::filesystem::path folder = std::filesystem::path(QANAT_BINARY_DIR) / "tests" / "integration-logs";
  std::filesystem::create_directories(folder);
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string name =
      test == nullptr ? "set-up" : std::string(test->test_suite_name()) + "." + test->name();
  const std::filesystem::path path = folder / (name + "-" + std::to_string(++number) + "-" +
                                               std::filesystem::path(program).filename().string());
  std::filesystem::remove(path);
  return path;
}

// The word after `before`, up to one of ",) ".
std::string WordAfter(const std::string& line, const std::string& before) {
  const size_t at = line.find(before);
  if (at == std::string::npos) return "";
  const size_t from = at + before.size();
  return line.substr(from, line.find_first_of(",) ", from) - from);
}

}  // namespace

std::string Program(const std::string& name) { return std::string(QANAT_BINARY_DIR) + "/bin/" + name; }

std::string ModelPath() {
  const char* path = std::getenv("QANAT_MODEL");
  if (path != nullptr && access(path, R_OK) == 0) return path;
  ADD_FAILURE() << "QANAT_MODEL does not name a file that can be read: these tests need the real model; "
                   "tools/check fetches it";
  return "";
}

Server StartServer(const Flags& command) {
  Server server;
  server.log = LogPath(command.front());
  server.process = std::make_unique<Process>(command, server.log);
  const std::string line = server.process->AwaitLine(" ready on ", kStart);
  server.address = WordAfter(line, " ready on ");
  server.metrics = WordAfter(line, "(metrics ");
  server.health = WordAfter(line, " health ");
  EXPECT_FALSE(server.address.empty() || server.metrics.empty() || server.health.empty())
      << command.front() << " did not become ready; it said: " << line << "; see " << server.log;
  return server;
}

Server StartWorker(const Flags& flags, const std::string& listen) {
  Flags command = {Program("qanat-worker"), "--model", ModelPath(), "--listen", listen, "--threads", "1"};
  command.insert(command.end(), flags.begin(), flags.end());
  // Small, but more than any test needs that does not say.
  if (std::find(flags.begin(), flags.end(), "--kv-blocks") == flags.end()) {
    command.insert(command.end(), {"--kv-blocks", "600"});
  }
  return StartServer(command);
}

Server StartRouter(const std::vector<std::string>& workers, const Flags& flags) {
  Flags command = {Program("qanat-router"), "--workers", absl::StrJoin(workers, ","), "--listen",
                   "127.0.0.1:0"};
  command.insert(command.end(), flags.begin(), flags.end());
  return StartServer(command);
}

Cluster::Cluster(int workers, const Flags& flags, const Flags& router_flags) {
  std::vector<std::string> addresses;
  for (int i = 0; i < workers; ++i) {
    workers_.push_back(StartWorker(flags));
    addresses.push_back(workers_.back().address);
  }
  router_ = StartRouter(addresses, router_flags);
  client_ = std::make_unique<Client>(router_.address);
  for (size_t i = 0; i < workers_.size(); ++i) {
    EXPECT_TRUE(AwaitState(i, "ready", kStart)) << "worker " << i << " is " << StateOf(i);
  }
}

v1::WorkerStatus Cluster::StatusOf(size_t worker) const {
  const auto stub = v1::ClusterService::NewStub(client_->channel());
  grpc::ClientContext context;
  v1::GetClusterResponse response;
  if (!stub->GetCluster(&context, v1::GetClusterRequest(), &response).ok()) return {};
  return response.workers(static_cast<int>(worker));
}

std::string Cluster::StateOf(size_t worker) const {
  const MetricsPage page = RouterMetrics();
  for (const char* state : {"connecting", "ready", "suspect", "draining", "down"}) {
    if (page.Value(std::string("qanat_router_worker_state{state=\"") + state + "\",worker=\"" +
                   workers_[worker].address + "\"}") == 1) {
      return state;
    }
  }
  return "unknown";
}

bool Cluster::AwaitState(size_t worker, const std::string& state, std::chrono::milliseconds patience) {
  return Eventually([&] { return StateOf(worker) == state; }, patience);
}

}  // namespace qanat::integration
