// The subcommands of `qanat`: one file each, one line in main.cc.
#pragma once

#include <functional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "common/base/error.h"

namespace qanat::tools {

// A subcommand and what runs it. An error is printed by main(), which also turns it into the exit status.
struct Command {
  CLI::App* app;
  std::function<absl::Status()> run;
};

// The reason of a mistake on the command line, which has an exit status of its own.
inline constexpr char kUsageReason[] = "USAGE";
inline absl::Status UsageError(const std::string& message) {
  return WithReason(absl::InvalidArgumentError(message), kUsageReason);
}

Command AddGenerate(CLI::App& qanat);
Command AddTokenize(CLI::App& qanat);
Command AddModels(CLI::App& qanat);
Command AddCluster(CLI::App& qanat);
Command AddBench(CLI::App& qanat);
Command AddInspect(CLI::App& qanat);

}  // namespace qanat::tools
