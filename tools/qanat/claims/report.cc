#include "tools/qanat/claims/report.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/qanat/measure.h"

namespace qanat::tools::claims {
namespace {

struct Column {
  const char* name;    // in JSON
  const char* header;  // of the table
  double Figures::*field;
  double scale;  // from the figure's unit to the table's
};

constexpr std::array<Column, 6> kColumns = {{
    {"tokens_per_second", "tok/s", &Figures::tokens_per_second, 1},
    {"slot_occupancy", "slots %", &Figures::busy, 100},
    {"kv_utilisation", "KV %", &Figures::kv_use, 100},
    {"blocks_saved", "saved %", &Figures::saved, 100},
    {"ttft_seconds", "TTFT s", &Figures::ttft_seconds, 1},
    {"tpot_seconds", "TPOT ms", &Figures::tpot_seconds, 1000},
}};

std::vector<double> Values(const std::vector<Figures>& rounds, double Figures::*field) {
  std::vector<double> values;
  for (const Figures& figures : rounds) values.push_back(figures.*field);
  return values;
}

double MedianOf(const std::vector<Figures>& rounds, double Figures::*field) {
  return Median(Values(rounds, field));
}

// Empty where there is no form.
std::string Number(double value, double scale) { return value < 0 ? "-" : FormatNumber(value * scale); }

double Throughput(const std::vector<Figures>& rounds) {
  return MedianOf(rounds, &Figures::tokens_per_second);
}

void AppendRow(const Row& row, const Row& first, std::string& text) {
  absl::StrAppendFormat(&text, "  %-29s", row.mode);
  for (const Column& column : kColumns) {
    const std::string pair = absl::StrCat(Number(MedianOf(row.measured, column.field), column.scale), " (",
                                          Number(MedianOf(row.expected, column.field), column.scale), ")");
    absl::StrAppendFormat(&text, " %15s", pair);
    if (column.field != &Figures::tokens_per_second) continue;
    const std::string ratio =
        absl::StrFormat("%.2fx (%.2f)", Throughput(row.measured) / Throughput(first.measured),
                        Throughput(row.expected) / Throughput(first.expected));
    absl::StrAppendFormat(&text, " %13s", ratio);
  }
  text += '\n';
}

}  // namespace

std::string ToText(const Report& report) {
  std::string text = absl::StrCat(report.device, "\n");
  for (const Section& section : report.sections) {
    absl::StrAppendFormat(&text, "\n%s: %s\n  %-29s", section.title, section.about, "");
    for (const Column& column : kColumns) {
      absl::StrAppendFormat(&text, " %15s", column.header);
      if (column.field == &Figures::tokens_per_second) absl::StrAppendFormat(&text, " %13s", "ratio");
    }
    text += '\n';
    for (const Row& row : section.rows) AppendRow(row, section.rows.front(), text);
  }
  return text;
}

nlohmann::json ToJson(const Report& report) {
  nlohmann::json sections = nlohmann::json::array();
  for (const Section& section : report.sections) {
    nlohmann::json rows = nlohmann::json::array();
    for (const Row& row : section.rows) {
      nlohmann::json object = {{"mode", row.mode}};
      for (const Column& column : kColumns) {
        const std::vector<double> values = Values(row.measured, column.field);
        const double expected = MedianOf(row.expected, column.field);
        nlohmann::json& figure = object[column.name];
        figure = {{"median", Median(values)},
                  {"min", *std::min_element(values.begin(), values.end())},
                  {"max", *std::max_element(values.begin(), values.end())}};
        if (expected >= 0) figure["closed_form"] = expected;
      }
      const Row& first = section.rows.front();
      object["ratio"] = {{"median", Throughput(row.measured) / Throughput(first.measured)},
                         {"closed_form", Throughput(row.expected) / Throughput(first.expected)}};
      rows.push_back(object);
    }
    sections.push_back({{"title", section.title}, {"about", section.about}, {"rows", rows}});
  }
  return {{"device", report.device}, {"sections", sections}};
}

BarChart ThroughputChart(const Report& report, const std::string& title) {
  BarChart chart;
  chart.title = title;
  chart.unit = "tokens/s";
  const size_t modes = report.sections.front().rows.size();
  for (const Section& section : report.sections) {
    if (section.rows.size() != modes) continue;
    BarGroup& group = chart.groups.emplace_back();
    group.label = section.title;
    for (const Row& row : section.rows) {
      const std::vector<double> values = Values(row.measured, &Figures::tokens_per_second);
      group.bars.push_back({row.mode, Median(values), *std::min_element(values.begin(), values.end()),
                            *std::max_element(values.begin(), values.end())});
    }
  }
  return chart;
}

}  // namespace qanat::tools::claims
