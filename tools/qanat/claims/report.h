// The ladder's figures as tables, as JSON and as charts.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tools/qanat/chart.h"
#include "tools/qanat/claims/measure_mode.h"

namespace qanat::tools::claims {

// A mode in the rounds of a scenario.
struct Row {
  std::string mode;
  std::vector<Figures> measured;  // by round
  std::vector<Figures> expected;  // by round, from that round's lengths and prices
};

struct Section {
  std::string title;
  std::string about;
  std::vector<Row> rows;  // the first is what the others are compared with
};

struct Report {
  std::string device;
  std::vector<Section> sections;
};

// Tables of medians over rounds, in parentheses those of the closed forms. The ratio is the median of the
// rounds' ratios and, where there is more than one round, the least and the greatest.
std::string ToMarkdown(const Report& report);
nlohmann::json ToJson(const Report& report);

// Tokens a second, a group for each section; of equal modes.
BarChart ThroughputChart(const Report& report, const std::string& title);

}  // namespace qanat::tools::claims
