#include "common/rpc/server.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/rpc/options.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace qanat::rpc {
namespace {

void SetArguments(grpc::ServerBuilder& builder, int max_receive_bytes) {
  builder.SetMaxReceiveMessageSize(max_receive_bytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  // Two servers on one port would share its calls at random; the second must fail instead.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // What MakeChannel's pings need, with room for their jitter.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kKeepaliveTimeMs / 4);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  // Process-wide switches of gRPC, without effect when repeated.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  grpc::ServerBuilder builder;
  SetArguments(builder, options.max_receive_bytes);
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port <= 0) {
    return WithField(
        absl::UnavailableError(absl::StrCat("cannot listen on '", options.listen,
                                            "': the address is malformed, not this machine's, or taken")),
        "listen");
  }
  const std::string host = options.listen.substr(0, options.listen.rfind(':'));
  return std::unique_ptr<Server>(new Server(std::move(server), absl::StrCat(host, ":", port)));
}

Server::Server(std::unique_ptr<grpc::Server> server, std::string address)
    : server_(std::move(server)), address_(std::move(address)) {}

Server::~Server() {
  if (!down_) Shutdown(Duration::zero());
}

void Server::SetServing(const std::string& service, bool serving) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  if (service.empty()) {
    health->SetServingStatus(serving);
  } else {
    health->SetServingStatus(service, serving);
  }
}

void Server::Shutdown(Duration grace) {
  down_ = true;
  server_->Shutdown(std::chrono::system_clock::now() +
                    std::chrono::duration_cast<std::chrono::system_clock::duration>(grace));
  server_->Wait();
}

}  // namespace qanat::rpc
