// The subcommands of `qanat`: one file each, one line in main.cc.
#pragma once

#include <functional>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace qanat::tools {

// A subcommand and what runs it. An error is printed by main(), which also turns it into the exit status.
struct Command {
  CLI::App* app;
  std::function<absl::Status()> run;
};

Command AddGenerate(CLI::App& qanat);
Command AddTokenize(CLI::App& qanat);
Command AddModels(CLI::App& qanat);
Command AddCluster(CLI::App& qanat);
Command AddBench(CLI::App& qanat);
Command AddInspect(CLI::App& qanat);

}  // namespace qanat::tools
