// `qanat cluster`: the workers that a router knows.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/rpc/options.h"
#include "common/rpc/status.h"
#include "qanat/v1/cluster.grpc.pb.h"
#include "tools/qanat/client.h"
#include "tools/qanat/command.h"

namespace qanat::tools {
namespace {

struct ClusterOptions {
  ClientOptions client;
  bool watch = false;
  std::string interval = "1s";
};

using Row = std::vector<std::string>;

std::string StateOf(const v1::WorkerStatus& worker) {
  const std::string name = v1::WorkerState_Name(worker.state());
  return absl::AsciiStrToLower(absl::StripPrefix(name, "WORKER_STATE_"));
}

Row Titles() {
  return {"worker", "state",  "calls",   "running", "waiting", "blocks",
          "free",   "cached", "indexed", "in step", "model"};
}

Row RowOf(const v1::WorkerStatus& worker) {
  return {worker.address(),
          StateOf(worker),
          absl::StrCat(worker.in_flight()),
          absl::StrCat(worker.running()),
          absl::StrCat(worker.waiting()),
          absl::StrCat(worker.total_blocks()),
          absl::StrCat(worker.free_blocks()),
          absl::StrCat(worker.cached_blocks()),
          absl::StrCat(worker.index_blocks()),
          worker.digest_ok() ? "yes" : "no",
          worker.model().empty() ? "unknown" : worker.model()};
}

// Columns as wide as their widest cell; the last one is not filled up.
std::string Table(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size() + 2);
  }
  std::string table;
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      table += row[i];
      if (i + 1 < row.size()) table.append(widths[i] - row[i].size(), ' ');
    }
    table += '\n';
  }
  return table;
}

void Print(const v1::GetClusterResponse& response, const ClusterOptions& options) {
  if (options.client.json) return PrintJson(response);
  std::vector<Row> rows = {Titles()};
  for (const v1::WorkerStatus& worker : response.workers()) rows.push_back(RowOf(worker));
  // Over what was drawn before.
  if (options.watch) std::fputs("\x1b[H\x1b[J", stdout);
  std::fputs(Table(rows).c_str(), stdout);
  std::fflush(stdout);
}

absl::Status Run(const ClusterOptions& options) {
  const absl::StatusOr<Duration> interval = ParseDuration(options.interval);
  if (!interval.ok() || *interval <= Duration::zero()) {
    return UsageError("--interval: not a time above 0");
  }
  const std::shared_ptr<grpc::Channel> channel = rpc::MakeChannel(options.client.target);
  const auto stub = v1::ClusterService::NewStub(channel);
  for (;;) {
    v1::GetClusterResponse response;
    QANAT_RETURN_IF_ERROR(RunCall(options.client, channel, [&](grpc::ClientContext& context) {
      return rpc::FromGrpc(stub->GetCluster(&context, v1::GetClusterRequest(), &response));
    }));
    Print(response, options);
    if (!options.watch) return absl::OkStatus();
    std::this_thread::sleep_for(*interval);
  }
}

}  // namespace

Command AddCluster(CLI::App& qanat) {
  CLI::App* app = qanat.add_subcommand("cluster", "Lists the workers that a router knows");
  const auto options = std::make_shared<ClusterOptions>();
  AddClientOptions(*app, options->client);
  app->add_flag("--watch", options->watch, "draw the list again and again, until it is interrupted");
  app->add_option("--interval", options->interval, "how often, with --watch")->capture_default_str();
  return {app, [options] { return Run(*options); }};
}

}  // namespace qanat::tools
