#include "tools/qanat/claims/report.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
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
    {"blocks_saved", "blocks saved %", &Figures::saved, 100},
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

// How many times the first's throughput, by round: within one, modes have the same lengths.
std::vector<double> Ratios(const std::vector<Figures>& rounds, const std::vector<Figures>& first) {
  std::vector<double> ratios;
  for (size_t i = 0; i < rounds.size(); ++i) {
    ratios.push_back(rounds[i].tokens_per_second / first[i].tokens_per_second);
  }
  return ratios;
}

double Least(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }
double Greatest(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }

std::string RatioCell(const Row& row, const Row& first) {
  const std::vector<double> ratios = Ratios(row.measured, first.measured);
  std::string cell = absl::StrFormat("%.2f", Median(ratios));
  if (ratios.size() > 1 && &row != &first) {
    absl::StrAppendFormat(&cell, ", %.2f .. %.2f", Least(ratios), Greatest(ratios));
  }
  absl::StrAppendFormat(&cell, " (%.2f)", Median(Ratios(row.expected, first.expected)));
  return cell;
}

// The form in parentheses, where there is one.
std::string Cell(const Row& row, const Column& column) {
  const double expected = MedianOf(row.expected, column.field);
  std::string cell = FormatNumber(MedianOf(row.measured, column.field) * column.scale);
  if (expected >= 0) absl::StrAppend(&cell, " (", FormatNumber(expected * column.scale), ")");
  return cell;
}

void AppendRow(const Row& row, const Row& first, std::string& text) {
  absl::StrAppend(&text, "| ", row.mode, " |");
  for (const Column& column : kColumns) {
    absl::StrAppend(&text, " ", Cell(row, column), " |");
    if (column.field == &Figures::tokens_per_second) {
      absl::StrAppend(&text, " ", RatioCell(row, first), " |");
    }
  }
  text += '\n';
}

nlohmann::json Spread(const std::vector<double>& values) {
  return {{"median", Median(values)}, {"min", Least(values)}, {"max", Greatest(values)}};
}

}  // namespace

std::string ToMarkdown(const Report& report) {
  std::string header = "| mode |";
  std::string rule = "| --- |";
  for (const Column& column : kColumns) {
    absl::StrAppend(&header, " ", column.header, " |");
    rule += " --- |";
    if (column.field != &Figures::tokens_per_second) continue;
    header += " ratio |";
    rule += " --- |";
  }
  std::string text = absl::StrCat(report.device, ":\n");
  for (const Section& section : report.sections) {
    std::string title = section.title;
    title[0] = absl::ascii_toupper(static_cast<unsigned char>(title[0]));
    absl::StrAppend(&text, "\n", title, ": ", section.about, ".\n\n", header, "\n", rule, "\n");
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
        nlohmann::json& figure = object[column.name] = Spread(Values(row.measured, column.field));
        const double expected = MedianOf(row.expected, column.field);
        if (expected >= 0) figure["closed_form"] = expected;
      }
      const Row& first = section.rows.front();
      nlohmann::json& ratio = object["ratio"] = Spread(Ratios(row.measured, first.measured));
      ratio["closed_form"] = Median(Ratios(row.expected, first.expected));
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
      group.bars.push_back({row.mode, Median(values), Least(values), Greatest(values)});
    }
  }
  return chart;
}

}  // namespace qanat::tools::claims
