// qanat: the command line of a cluster.
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "tools/qanat/client.h"
#include "tools/qanat/command.h"

int main(int argc, char** argv) {
  using namespace qanat;
  CLI::App app("Talks to a Qanat cluster.", "qanat");
  app.set_version_flag("--version",
                       absl::StrCat("qanat ", std::string(Version()), " (", std::string(Revision()), ")"));
  app.require_subcommand(1);
  app.footer(tools::kExitStatuses);
  const std::vector<tools::Command> commands = {tools::AddGenerate(app), tools::AddTokenize(app),
                                                tools::AddModels(app),   tools::AddCluster(app),
                                                tools::AddBench(app),    tools::AddInspect(app)};
  for (const tools::Command& command : commands) command.app->footer(tools::kExitStatuses);
  constexpr int kUsage = 2;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  for (const tools::Command& command : commands) {
    if (command.app->parsed()) return tools::Report(command.run());
  }
  return kUsage;
}
