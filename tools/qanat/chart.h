// Bar charts as SVG, from plain data.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace qanat::tools {

struct Bar {
  std::string label;  // of its series: bars of one label have one colour, and the legend names it
  double value = 0;
  std::optional<double> min, max;  // of the rounds that the value is the median of
};

struct BarGroup {
  std::string label;  // below its bars
  std::vector<Bar> bars;
};

struct BarChart {
  std::string title;
  std::string unit;  // of all values
  std::vector<BarGroup> groups;
};

// {"title", "unit", "groups": [{"label", "bars": [{"label", "value", "min", "max"}]}]}, the last two or one
// of them optional. INVALID_ARGUMENT: it is not that, has no bar, more than eight series, or a value that is
// negative or no number.
absl::StatusOr<BarChart> ParseBarChart(std::string_view json);

// An SVG document that needs nothing else and is readable on a light and on a dark page. REQUIRES: as
// ParseBarChart.
std::string RenderBarChart(const BarChart& chart);

// A number as a reader wants it: three digits at least, thousands apart, no trailing zeros.
std::string FormatNumber(double value);

}  // namespace qanat::tools
