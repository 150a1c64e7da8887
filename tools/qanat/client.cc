#include "tools/qanat/client.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/rpc/options.h"
#include "common/text/utf8.h"
#include "google/protobuf/util/json_util.h"
#include "tools/qanat/command.h"

namespace qanat::tools {
namespace {

enum Exit { kOk = 0, kFailed = 1, kUsage = 2, kRefused = 3, kUnavailable = 4, kDeadline = 5 };

constexpr Duration kPause = std::chrono::milliseconds(250);

Exit ExitOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return ReasonOf(status) == kUsageReason ? kUsage : kRefused;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
      return kUnavailable;
    case absl::StatusCode::kDeadlineExceeded:
      return kDeadline;
    default:
      return kFailed;
  }
}

// What a newcomer may do about it; empty: nothing comes to mind.
std::string HintOf(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  if (reason == "NO_WORKER")
    return "the router runs, but no worker is ready yet; try again, or add --wait 30s";
  if (reason == "WORKER_LOST") return "the worker died while it answered; try again";
  if (const auto after = RetryAfterOf(status)) return absl::StrCat("try again in ", FormatDuration(*after));
  if (absl::IsUnavailable(status) && reason.empty()) {
    return "is a router running there? tools/up starts one; --target names another";
  }
  if (absl::IsDeadlineExceeded(status)) return "--timeout allows more";
  return "";
}

}  // namespace

const char kExitStatuses[] =
    "Exit status: 0 done; 1 it failed; 2 the command line is wrong; 3 the request was refused as it is;\n"
    "4 nobody can serve it now (not reachable, full, no worker); 5 the deadline passed.";

void AddClientOptions(CLI::App& app, ClientOptions& options) {
  app.add_option("--target", options.target, "router (or worker), HOST:PORT")
      ->envname("QANAT_TARGET")
      ->capture_default_str();
  app.add_option("--timeout", options.timeout, "deadline of the call; 0 is none")->capture_default_str();
  app.add_option("--wait", options.wait, "how long to wait for a router and a worker that are not there yet")
      ->capture_default_str();
  app.add_flag("--json", options.json, "print each message as a line of JSON");
}

absl::StatusOr<Duration> ReadDuration(const char* flag, const std::string& text) {
  absl::StatusOr<Duration> duration = ParseDuration(text);
  if (duration.ok()) return duration;
  return UsageError(absl::StrCat(flag, ": ", duration.status().message()));
}

absl::Status RunCall(const ClientOptions& options, const std::shared_ptr<grpc::Channel>& channel,
                     const std::function<absl::Status(grpc::ClientContext&)>& call) {
  QANAT_ASSIGN_OR_RETURN(const Duration timeout, ReadDuration("--timeout", options.timeout));
  QANAT_ASSIGN_OR_RETURN(const Duration wait, ReadDuration("--wait", options.wait));
  const RealClock clock;
  const Time until = clock.Now() + wait;
  for (;;) {
    grpc::ClientContext context;
    if (timeout > Duration::zero()) rpc::SetDeadline(context, clock.Now() + timeout, clock);
    const absl::Status status = call(context);
    const Duration left = until - clock.Now();
    if (!absl::IsUnavailable(status) || left <= Duration::zero()) return status;
    // Nothing tells a client when a router or a worker appears.
    channel->WaitForConnected(std::chrono::system_clock::now() +
                              std::chrono::duration_cast<std::chrono::system_clock::duration>(left));
    std::this_thread::sleep_for(std::min(kPause, left));
  }
}

absl::StatusOr<std::string> ReadText(const std::string& argument) {
  std::string content = argument;
  if (argument == "-")
    content.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  if (text::IsValidUtf8(content)) return content;
  return UsageError("the text is not UTF-8");
}

v1::ChatPrompt MakeChat(const std::string& system, const std::string& user) {
  v1::ChatPrompt chat;
  const auto add = [&](const char* role, const std::string& content) {
    v1::ChatMessage* message = chat.add_messages();
    message->set_role(role);
    message->set_content(content);
  };
  if (!system.empty()) add("system", system);
  add("user", user);
  return chat;
}

void PrintJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string line;
  // A message of ours always has a JSON form.
  (void)google::protobuf::util::MessageToJsonString(message, &line, options);
  line.push_back('\n');
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

int Report(const absl::Status& status) {
  const Exit exit = ExitOf(status);
  if (exit == kOk) return exit;
  std::fprintf(stderr, "qanat: %s: %s\n", absl::StatusCodeToString(status.code()).c_str(),
               std::string(status.message()).c_str());
  const std::string field = FieldOf(status);
  if (!field.empty()) std::fprintf(stderr, "  field: %s\n", field.c_str());
  const std::string hint = HintOf(status);
  if (!hint.empty()) std::fprintf(stderr, "  hint: %s\n", hint.c_str());
  return exit;
}

}  // namespace qanat::tools
