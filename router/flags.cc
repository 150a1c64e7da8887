#include "router/flags.h"

#include <cstdint>
#include <cstdio>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/base/version.h"
#include "router/routing/registry.h"

namespace qanat::router {
namespace {

constexpr int kMistake = 2;

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

void Add(CLI::App& app, const std::string& name, std::string& value, const std::string& help) {
  const std::string environment =
      absl::StrCat("QANAT_", absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
  app.add_option("--" + name, value, help)->envname(environment)->capture_default_str();
}

void AddAll(CLI::App& app, Flags& flags, Raw& raw) {
  Add(app, "workers", raw.workers, "workers, HOST:PORT separated by commas; required");
  Add(app, "workers-file", raw.workers_file, "not built yet");
  Add(app, "workers-dns", raw.workers_dns, "not built yet");
  Add(app, "listen", flags.listen, "gRPC; port 0 picks one and prints it");
  Add(app, "metrics-listen", flags.metrics_listen, "plain HTTP, GET /metrics");
  Add(app, "health-listen", flags.health_listen, "plain gRPC health: liveness, readiness");
  Add(app, "http-listen", raw.http_listen, "not built yet: off");
  Add(app, "policy", flags.policy, "how a worker is chosen: least_loaded, round_robin");
  Add(app, "queue-requests", raw.queue_requests, "most requests that may be open");
  Add(app, "queue-tokens", raw.queue_tokens, "most prompt tokens of open requests (K, M, G: powers of 1024)");
  Add(app, "queue-bytes", raw.queue_bytes, "most bytes of open requests");
  Add(app, "tenants-file", raw.tenants_file, "not built yet: one tenant");
  Add(app, "hash-key-file", flags.hash_key_file, "cluster key of the block hash; default: a public constant");
  Add(app, "cluster-token-file", raw.cluster_token_file, "not built yet: loopback only");
  Add(app, "log-format", flags.log_format, "text or json");
  Add(app, "log-level", flags.log_level, "debug, info, warn, error or off");
}

absl::Status NotBuilt(const char* flag) {
  return absl::UnimplementedError(absl::StrCat(flag, " is not built yet"));
}

absl::Status ReadSize(const char* flag, const std::string& text, int64_t& value) {
  const absl::StatusOr<int64_t> size = ParseSize(text);
  if (!size.ok()) return absl::InvalidArgumentError(absl::StrCat(flag, ": ", size.status().message()));
  value = *size;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ReadWorkers(const std::string& text) {
  std::vector<std::string> workers;
  for (std::string& worker : CLI::detail::split(text, ',')) {
    const size_t colon = worker.rfind(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == worker.size()) {
      return absl::InvalidArgumentError(absl::StrCat("--workers: '", worker, "' is not HOST:PORT"));
    }
    workers.push_back(std::move(worker));
  }
  return workers;
}

absl::Status Check(const Raw& raw, Flags& flags) {
  if (!raw.workers_file.empty()) return NotBuilt("--workers-file");
  if (!raw.workers_dns.empty()) return NotBuilt("--workers-dns");
  if (raw.http_listen != "off") return NotBuilt("--http-listen");
  if (!raw.tenants_file.empty()) return NotBuilt("--tenants-file");
  if (!raw.cluster_token_file.empty()) return NotBuilt("--cluster-token-file");
  if (raw.workers.empty()) {
    return absl::InvalidArgumentError("--workers is required: HOST:PORT of each worker, separated by commas");
  }
  QANAT_ASSIGN_OR_RETURN(flags.workers, ReadWorkers(raw.workers));
  if (const auto policy = MakePolicy(flags.policy); !policy.ok()) {
    return absl::Status(policy.status().code(), absl::StrCat("--policy: ", policy.status().message()));
  }
  QANAT_RETURN_IF_ERROR(ReadSize("--queue-requests", raw.queue_requests, flags.admission.queue_requests));
  QANAT_RETURN_IF_ERROR(ReadSize("--queue-tokens", raw.queue_tokens, flags.admission.queue_tokens));
  QANAT_RETURN_IF_ERROR(ReadSize("--queue-bytes", raw.queue_bytes, flags.admission.queue_bytes));
  return flags.admission.Validate();
}

}  // namespace

std::optional<int> ParseFlags(int argc, char** argv, Flags& flags) {
  CLI::App app("The router of a Qanat cluster: takes requests and sends each to a worker.", "qanat-router");
  app.footer(kFooter);
  app.set_version_flag(
      "--version", absl::StrCat("qanat-router ", std::string(Version()), " (", std::string(Revision()), ")"));
  app.set_config("--config", "", "read flags from this file, a line NAME=VALUE each");
  bool print_config = false;
  app.add_flag("--print-config", print_config, "print all flags as a --config file and end")
      ->configurable(false);
  Raw raw;
  flags.policy = std::string(kDefaultPolicy);
  AddAll(app, flags, raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kMistake;
  }
  if (print_config) {
    std::fputs(app.config_to_str(/*default_also=*/true).c_str(), stdout);
    return 0;
  }
  const absl::Status status = Check(raw, flags);
  if (status.ok()) return std::nullopt;
  std::fprintf(stderr, "qanat-router: %s\n", std::string(status.message()).c_str());
  return kMistake;
}

}  // namespace qanat::router
