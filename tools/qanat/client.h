// What subcommands share that talk to a router (or to a worker, which serves the same API).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "google/protobuf/message.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "qanat/v1/inference.pb.h"

namespace qanat::tools {

struct ClientOptions {
  std::string target = "127.0.0.1:50051";
  std::string timeout = "5m";
  std::string wait = "0s";
  bool json = false;
};

// --target, --timeout, --wait, --json.
void AddClientOptions(CLI::App& app, ClientOptions& options);

// INVALID_ARGUMENT naming the flag when `text` is no duration.
absl::StatusOr<Duration> ReadDuration(const char* flag, const std::string& text);

// Runs `call` with a context whose deadline is --timeout. While it ends UNAVAILABLE and --wait has not
// passed, runs it again: `call` starts anew each time, and ends otherwise once it has printed something.
// INVALID_ARGUMENT for a flag that is no duration.
absl::Status RunCall(const ClientOptions& options, const std::shared_ptr<grpc::Channel>& channel,
                     const std::function<absl::Status(grpc::ClientContext&)>& call);

// A text given as an argument; "-" reads it from standard input. INVALID_ARGUMENT when it is not UTF-8.
absl::StatusOr<std::string> ReadText(const std::string& argument);

// A conversation of one user's turn, after what the system says (empty: nothing).
v1::ChatPrompt MakeChat(const std::string& system, const std::string& user);

// One line, the fields named as in the proto.
void PrintJson(const google::protobuf::Message& message);

// The exit status of a command that ended with `status`; says on stderr what failed, where, and what may
// help.
int Report(const absl::Status& status);

// For --help.
extern const char kExitStatuses[];

}  // namespace qanat::tools
