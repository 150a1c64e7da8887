#include "router/flags.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/cli/command_line.h"
#include "router/routing/registry.h"

namespace qanat::router {
namespace {

constexpr char kFooter[] =
    "Every flag is also QANAT_<NAME> in the environment (QANAT_QUEUE_REQUESTS) and a key of the --config "
    "file.\n"
    "Exit status: 0 after SIGTERM or SIGINT, 1 when it cannot run, 2 for a mistake in the flags.";

// What the command line says, before it is checked.
struct Raw {
  std::string workers;
  std::string queue_requests = "4096";
  std::string queue_tokens = "8M";
  std::string queue_bytes = "1G";
  // Not built yet: refused unless they say what is the case anyway.
  std::string workers_file;
  std::string workers_dns;
  std::string http_listen = "off";
  std::string tenants_file;
  std::string cluster_token_file;
};

void AddAll(CLI::App& app, Flags& flags, Raw& raw) {
  cli::AddFlag(app, "workers", raw.workers, "workers, HOST:PORT separated by commas; required");
  cli::AddFlag(app, "workers-file", raw.workers_file, "not built yet");
  cli::AddFlag(app, "workers-dns", raw.workers_dns, "not built yet");
  cli::AddFlag(app, "listen", flags.listen, "gRPC; port 0 picks one and prints it");
  cli::AddFlag(app, "metrics-listen", flags.metrics_listen, "plain HTTP, GET /metrics");
  cli::AddFlag(app, "health-listen", flags.health_listen, "plain gRPC health: liveness, readiness");
  cli::AddFlag(app, "http-listen", raw.http_listen, "not built yet: off");
  cli::AddFlag(
      app, "policy", flags.policy,
      "how a worker is chosen: round_robin, least_loaded, power_of_two, consistent_hash, overlap_argmax, "
      "linear_cost, weighted_sum or prefix_cost");
  cli::AddFlag(app, "queue-requests", raw.queue_requests, "most requests that may be open");
  cli::AddFlag(app, "queue-tokens", raw.queue_tokens,
               "most prompt tokens of open requests (K, M, G: powers of 1024)");
  cli::AddFlag(app, "queue-bytes", raw.queue_bytes, "most bytes of open requests");
  cli::AddFlag(app, "tenants-file", raw.tenants_file, "not built yet: one tenant");
  cli::AddFlag(app, "hash-key-file", flags.hash_key_file,
               "cluster key of the block hash; default: a public constant");
  cli::AddFlag(app, "cluster-token-file", raw.cluster_token_file, "not built yet: loopback only");
}

// The one way to write an address, so that a worker that is named twice shows.
absl::StatusOr<std::string> ReadAddress(absl::string_view text) {
  const size_t colon = text.rfind(':');
  const absl::string_view digits = colon == text.npos ? "" : text.substr(colon + 1);
  int port = 0;
  if (colon == 0 || digits.size() > 5 || !std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(digits, &port) || port < 1 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("--workers: '", text, "' is not HOST:PORT with a port of 1 to 65535"));
  }
  return absl::StrCat(text.substr(0, colon), ":", port);
}

absl::StatusOr<std::vector<std::string>> ReadWorkers(const std::string& text) {
  std::vector<std::string> workers;
  for (const absl::string_view worker : absl::StrSplit(text, ',')) {
    QANAT_ASSIGN_OR_RETURN(std::string address, ReadAddress(absl::StripAsciiWhitespace(worker)));
    if (std::find(workers.begin(), workers.end(), address) != workers.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--workers: '", address, "' is named twice"));
    }
    workers.push_back(std::move(address));
  }
  return workers;
}

absl::Status Check(const Raw& raw, Flags& flags) {
  if (!raw.workers_file.empty()) return cli::NotBuilt("--workers-file");
  if (!raw.workers_dns.empty()) return cli::NotBuilt("--workers-dns");
  if (raw.http_listen != "off") return cli::NotBuilt("--http-listen");
  if (!raw.tenants_file.empty()) return cli::NotBuilt("--tenants-file");
  if (!raw.cluster_token_file.empty()) return cli::NotBuilt("--cluster-token-file");
  if (raw.workers.empty()) {
    return absl::InvalidArgumentError("--workers is required: HOST:PORT of each worker, separated by commas");
  }
  QANAT_ASSIGN_OR_RETURN(flags.workers, ReadWorkers(raw.workers));
  if (const auto policy = MakePolicy(flags.policy); !policy.ok()) {
    return absl::Status(policy.status().code(), absl::StrCat("--policy: ", policy.status().message()));
  }
  QANAT_RETURN_IF_ERROR(
      cli::ReadNumber("--queue-requests", raw.queue_requests, flags.admission.queue_requests));
  QANAT_RETURN_IF_ERROR(cli::ReadNumber("--queue-tokens", raw.queue_tokens, flags.admission.queue_tokens));
  QANAT_RETURN_IF_ERROR(cli::ReadNumber("--queue-bytes", raw.queue_bytes, flags.admission.queue_bytes));
  return flags.admission.Validate();
}

}  // namespace

std::optional<int> ParseFlags(int argc, char** argv, Flags& flags) {
  CLI::App app("The router of a Qanat cluster: takes requests and sends each to a worker.", "qanat-router");
  app.footer(kFooter);
  Raw raw;
  flags.policy = std::string(kDefaultPolicy);
  AddAll(app, flags, raw);
  return cli::Parse(app, argc, argv, [&] { return Check(raw, flags); });
}

}  // namespace qanat::router
