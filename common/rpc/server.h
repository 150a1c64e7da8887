// One listening gRPC server.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "grpcpp/impl/codegen/service_type.h"
#include "grpcpp/server.h"

namespace qanat::rpc {

struct ServerOptions {
  std::string listen;  // host:port; port 0 picks one
  // Beside them every server answers grpc.health.v1 and reflection. They outlive the server.
  std::vector<grpc::Service*> services;
  int max_receive_bytes = 4 << 20;
};

// What: listens on one port and serves until Shutdown. Owns the listening socket and gRPC's threads; the
// services outlive it. Threads: any. Errors: Start says which address cannot be listened on.
class Server {
 public:
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  // Cancels what is still open.
  ~Server();

  // "host:port" with the port that was chosen.
  const std::string& address() const { return address_; }

  // What grpc.health.v1 answers for `service`; "" is the server as a whole. A name never set is NOT_FOUND; at
  // the start "" is SERVING.
  void SetServing(const std::string& service, bool serving);

  // Takes no new calls, waits up to `grace` for open ones, then cancels those. Every reactor is done when it
  // returns, so whoever ends the calls (the engine thread) must still run. Once only.
  void Shutdown(Duration grace);

 private:
  Server(std::unique_ptr<grpc::Server> server, std::string address);

  std::unique_ptr<grpc::Server> server_;
  const std::string address_;
  bool down_ = false;
};

}  // namespace qanat::rpc
