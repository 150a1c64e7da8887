// `qanat cluster`: the workers that a router knows.
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/rpc/options.h"
#include "common/rpc/status.h"
#include "qanat/v1/cluster.grpc.pb.h"
#include "tools/qanat/client.h"
#include "tools/qanat/command.h"

namespace qanat::tools {
namespace {

std::string StateOf(const v1::WorkerStatus& worker) {
  const std::string name = v1::WorkerState_Name(worker.state());
  return absl::AsciiStrToLower(absl::StripPrefix(name, "WORKER_STATE_"));
}

absl::Status Run(const ClientOptions& options) {
  const std::shared_ptr<grpc::Channel> channel = rpc::MakeChannel(options.target);
  const auto stub = v1::ClusterService::NewStub(channel);
  v1::GetClusterResponse response;
  QANAT_RETURN_IF_ERROR(RunCall(options, channel, [&](grpc::ClientContext& context) {
    return rpc::FromGrpc(stub->GetCluster(&context, v1::GetClusterRequest(), &response));
  }));
  if (options.json) {
    PrintJson(response);
    return absl::OkStatus();
  }
  for (const v1::WorkerStatus& worker : response.workers()) {
    std::printf("%s  %s, %d calls in flight, %lld blocks, model %s\n", worker.address().c_str(),
                StateOf(worker).c_str(), worker.in_flight(), static_cast<long long>(worker.total_blocks()),
                worker.model().empty() ? "unknown" : worker.model().c_str());
  }
  return absl::OkStatus();
}

}  // namespace

Command AddCluster(CLI::App& qanat) {
  CLI::App* app = qanat.add_subcommand("cluster", "Lists the workers that a router knows");
  const auto options = std::make_shared<ClientOptions>();
  AddClientOptions(*app, *options);
  return {app, [options] { return Run(*options); }};
}

}  // namespace qanat::tools
