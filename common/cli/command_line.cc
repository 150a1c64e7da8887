#include "common/cli/command_line.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <istream>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/log.h"
#include "common/base/units.h"
#include "common/base/version.h"

namespace qanat::cli {
namespace {

std::string VariableOf(const std::string& name) {
  return absl::StrCat("QANAT_", absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
}

// As CLI11 takes it: an empty variable is none.
std::string Environment(const std::string& variable) {
  const char* const value = std::getenv(variable.c_str());
  return value == nullptr ? "" : value;
}

// A --config file, but for what the environment sets: CLI11 reads the file first, and what is set stays.
class FileBelowEnvironment final : public CLI::ConfigTOML {
 public:
  explicit FileBelowEnvironment(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> items = CLI::ConfigTOML::from_config(input);
    items.erase(std::remove_if(items.begin(), items.end(), [this](const auto& item) { return IsSet(item); }),
                items.end());
    return items;
  }

 private:
  bool IsSet(const CLI::ConfigItem& item) const {
    const CLI::Option* const option = app_.get_option_no_throw("--" + item.name);
    return item.parents.empty() && option != nullptr && !Environment(option->get_envname()).empty();
  }

  const CLI::App& app_;
};

// What the file says that is no flag is a mistake.
void AddConfigFile(CLI::App& app) {
  const std::string variable = VariableOf("config");
  const std::string file = Environment(variable);
  app.set_config("--config", file, "read flags from this file, a line NAME=VALUE each",
                 /*config_required=*/!file.empty())
      ->envname(variable);
  app.config_formatter(std::make_shared<FileBelowEnvironment>(app));
  app.allow_config_extras(CLI::config_extras_mode::error);
}

}  // namespace

void AddFlag(CLI::App& app, const std::string& name, std::string& value, const std::string& help) {
  app.add_option("--" + name, value, help)->envname(VariableOf(name))->capture_default_str();
}

void AddFlag(CLI::App& app, const std::string& name, bool& value, const std::string& help) {
  app.add_flag("--" + name, value, help)->envname(VariableOf(name));
}

std::optional<int> Parse(CLI::App& app, int argc, char** argv, const std::function<absl::Status()>& check) {
  app.set_version_flag("--version", absl::StrCat(app.get_name(), " ", std::string(Version()), " (",
                                                 std::string(Revision()), ")"));
  AddConfigFile(app);
  std::string log_format = "text";
  std::string log_level = "info";
  AddFlag(app, "log-format", log_format, "text or json");
  AddFlag(app, "log-level", log_level, "debug, info, warn, error or off");
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
  absl::Status status = check();
  if (status.ok()) status = InitLogging(log_format, log_level);
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
