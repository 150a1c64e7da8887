#include "common/cli/command_line.h"

#include <cstdio>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/units.h"
#include "common/base/version.h"

namespace qanat::cli {

void AddFlag(CLI::App& app, const std::string& name, std::string& value, const std::string& help) {
  const std::string environment =
      absl::StrCat("QANAT_", absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
  app.add_option("--" + name, value, help)->envname(environment)->capture_default_str();
}

std::optional<int> Parse(CLI::App& app, int argc, char** argv, const std::function<absl::Status()>& check) {
  app.set_version_flag("--version", absl::StrCat(app.get_name(), " ", std::string(Version()), " (",
                                                 std::string(Revision()), ")"));
  app.set_config("--config", "", "read flags from this file, a line NAME=VALUE each");
  bool print_config = false;
  app.add_flag("--print-config", print_config, "print all flags as a --config file and end")
      ->configurable(false);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kMistake;
  }
  if (print_config) {
    std::fputs(app.config_to_str(/*default_also=*/true).c_str(), stdout);
    return 0;
  }
  const absl::Status status = check();
  if (status.ok()) return std::nullopt;
  std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), std::string(status.message()).c_str());
  return kMistake;
}

absl::Status ReadNumber(const char* flag, const std::string& text, int64_t most, int64_t& value) {
  const absl::StatusOr<int64_t> size = ParseSize(text);
  if (!size.ok()) return absl::InvalidArgumentError(absl::StrCat(flag, ": ", size.status().message()));
  if (*size > most) return absl::InvalidArgumentError(absl::StrCat(flag, ": ", text, " is too large"));
  value = *size;
  return absl::OkStatus();
}

absl::Status ReadDuration(const char* flag, const std::string& text, Duration& value) {
  const absl::StatusOr<Duration> duration = ParseDuration(text);
  if (!duration.ok())
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", duration.status().message()));
  if (*duration <= Duration::zero())
    return absl::InvalidArgumentError(absl::StrCat(flag, " must be above 0"));
  value = *duration;
  return absl::OkStatus();
}

absl::Status NotBuilt(const std::string& what) {
  return absl::UnimplementedError(what + " is not built yet");
}

}  // namespace qanat::cli
