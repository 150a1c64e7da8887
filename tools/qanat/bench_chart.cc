#include "tools/qanat/bench_chart.h"

#include <fstream>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "tools/qanat/chart.h"
#include "tools/qanat/command.h"

namespace qanat::tools {
namespace {

struct Options {
  std::string results;
  std::string out;
};

absl::Status Run(const Options& options) {
  std::ifstream file(options.results);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  QANAT_ASSIGN_OR_RETURN(const BarChart chart, ParseBarChart(text));
  return WriteFile(options.out, RenderBarChart(chart));
}

}  // namespace

absl::Status CheckWritable(const std::string& flag, const std::string& path) {
  if (std::ofstream(path, std::ios::app)) return absl::OkStatus();
  return UsageError(absl::StrCat(flag, ": ", path, " cannot be written"));
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(path, " cannot be written"));
}

std::function<absl::Status()> AddBenchChart(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand("chart", "Draws results as a bar chart");
  const auto options = std::make_shared<Options>();
  app->add_option("results", options->results,
                  "JSON: {title, unit, groups: [{label, bars: [{label, value, min, max}]}]}")
      ->required()
      ->check(CLI::ExistingFile);
  app->add_option("--out", options->out, "SVG file to write")->required();
  return [app, options] { return app->parsed() ? Run(*options) : absl::OkStatus(); };
}

}  // namespace qanat::tools
