#include "tools/qanat/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace qanat::tools {
namespace {

using nlohmann::json;

// Of middle lightness: they stand out on white and on black.
constexpr std::array<const char*, 8> kColours = {"#4c78a8", "#f58518", "#54a24b", "#e45756",
                                                 "#b279a2", "#72b7b2", "#9d755d", "#a0a0a0"};
constexpr char kStyle[] =
    "<style>text{font-family:system-ui,sans-serif;font-size:12px;fill:#24292f}"
    ".title{font-size:16px;font-weight:600}.value{font-size:11px}.end{text-anchor:end}"
    ".middle{text-anchor:middle}.grid{stroke:#d0d7de}.axis,.whisker{stroke:#57606a}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#30363d}"
    ".axis,.whisker{stroke:#9198a1}}</style>\n";

// Pixels.
constexpr double kWidth = 800;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kPlotHeight = 260;
constexpr double kLegendLine = 20;
constexpr double kCharacter = 6.6;  // a wide one of 12 px
constexpr double kLine = 15;

std::string Escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

// In order of appearance.
std::vector<std::string> SeriesOf(const BarChart& chart) {
  std::vector<std::string> series;
  for (const BarGroup& group : chart.groups) {
    for (const Bar& bar : group.bars) {
      if (std::find(series.begin(), series.end(), bar.label) == series.end()) series.push_back(bar.label);
    }
  }
  return series;
}

double HighestOf(const BarChart& chart) {
  double highest = 0;
  for (const BarGroup& group : chart.groups) {
    for (const Bar& bar : group.bars) highest = std::max({highest, bar.value, bar.max.value_or(0)});
  }
  return highest;
}

// A step of 1, 2 or 5 times a power of ten, so that `highest` takes at most six.
double StepOf(double highest) {
  if (highest <= 0) return 1;
  const double power = std::pow(10, std::floor(std::log10(highest / 6)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (highest <= 6 * factor * power) return factor * power;
  }
  return 10 * power;
}

// Words on lines of at most `width` pixels, where they fit at all.
std::vector<std::string> Wrap(std::string_view text, double width) {
  std::vector<std::string> lines(1);
  const auto limit = static_cast<size_t>(std::max(1.0, width / kCharacter));
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > limit) lines.emplace_back();
    absl::StrAppend(&lines.back(), lines.back().empty() ? "" : " ", std::string(word));
  }
  return lines;
}

// What: draws one chart from top to bottom.
class Drawing {
 public:
  explicit Drawing(const BarChart& chart)
      : chart_(chart),
        series_(SeriesOf(chart)),
        step_(StepOf(HighestOf(chart))),
        top_(step_ * std::max(1.0, std::ceil(HighestOf(chart) / step_))),
        upright_(AnyTooWide()) {}

  std::string Draw() {
    double y = 24;
    absl::StrAppend(&body_, "<text class=\"title\" x=\"16\" y=\"24\">", Escape(chart_.title), "</text>\n");
    if (series_.size() > 1) y = DrawLegend(y + 22);
    absl::StrAppendFormat(&body_, "<text x=\"16\" y=\"%.1f\">%s</text>\n", y + 20, Escape(chart_.unit));
    // Room for the number above the highest bar.
    plot_top_ = y + (upright_ ? 56 : 32);
    DrawAxis();
    const double bottom = DrawGroups();
    return absl::StrFormat(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n"
               "<title>%s</title>\n",
               kWidth, bottom, Escape(chart_.title)) +
           kStyle + body_ + "</svg>\n";
  }

 private:
  const char* ColourOf(const Bar& bar) const {
    const auto index = std::find(series_.begin(), series_.end(), bar.label) - series_.begin();
    return kColours[static_cast<size_t>(index) % kColours.size()];
  }
  double GroupWidth() const { return (kWidth - kLeft - kRight) / static_cast<double>(chart_.groups.size()); }
  double BarWidth(const BarGroup& group) const {
    return std::min(72.0, 0.84 * GroupWidth() / static_cast<double>(group.bars.size()));
  }
  bool AnyTooWide() const {
    for (const BarGroup& group : chart_.groups) {
      for (const Bar& bar : group.bars) {
        const auto characters = static_cast<double>(FormatNumber(bar.value).size());
        if (kCharacter * characters > BarWidth(group) + 6) return true;
      }
    }
    return false;
  }
  double Y(double value) const { return plot_top_ + kPlotHeight * (1 - value / top_); }

  double DrawLegend(double y) {
    double x = 16;
    for (size_t i = 0; i < series_.size(); ++i) {
      const double width = 24 + kCharacter * static_cast<double>(series_[i].size()) + 14;
      if (x > 16 && x + width > kWidth - kRight) {
        x = 16;
        y += kLegendLine;
      }
      absl::StrAppendFormat(&body_,
                            "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" rx=\"2\" fill=\"%s\"/>"
                            "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                            x, y - 10, kColours[i % kColours.size()], x + 18, y, Escape(series_[i]));
      x += width;
    }
    return y;
  }

  void DrawAxis() {
    for (int i = 0; i * step_ <= top_ * (1 + 1e-9); ++i) {
      const double y = Y(i * step_);
      absl::StrAppendFormat(&body_,
                            "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>"
                            "<text class=\"end\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                            i == 0 ? "axis" : "grid", kLeft, y, kWidth - kRight, y, kLeft - 8, y + 4,
                            FormatNumber(i * step_));
    }
  }

  // The lower end of what stands below them.
  double DrawGroups() {
    const double width = GroupWidth();
    size_t most_lines = 1;
    double x = kLeft;
    for (const BarGroup& group : chart_.groups) {
      const double bar = BarWidth(group);
      double left = x + (width - bar * static_cast<double>(group.bars.size())) / 2;
      for (const Bar& each : group.bars) {
        DrawBar(each, left, bar);
        left += bar;
      }
      const std::vector<std::string> lines = Wrap(group.label, width - 8);
      for (size_t i = 0; i < lines.size(); ++i) {
        absl::StrAppendFormat(&body_, "<text class=\"middle\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                              x + width / 2, Y(0) + 18 + kLine * static_cast<double>(i), Escape(lines[i]));
      }
      most_lines = std::max(most_lines, lines.size());
      x += width;
    }
    return Y(0) + 18 + kLine * static_cast<double>(most_lines);
  }

  void DrawBar(const Bar& bar, double left, double width) {
    const double top = Y(bar.value);
    absl::StrAppendFormat(&body_,
                          "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\">"
                          "<title>%s: %s</title></rect>\n",
                          left + 1, top, std::max(1.0, width - 2), Y(0) - top, ColourOf(bar),
                          Escape(bar.label), FormatNumber(bar.value));
    const double low = bar.min.value_or(bar.value);
    const double high = bar.max.value_or(bar.value);
    const double middle = left + width / 2;
    if (low < high) {
      absl::StrAppendFormat(&body_,
                            "<path class=\"whisker\" fill=\"none\" "
                            "d=\"M%.1f %.1fV%.1fM%.1f %.1fh8M%.1f %.1fh8\"/>\n",
                            middle, Y(low), Y(high), middle - 4, Y(low), middle - 4, Y(high));
    }
    const std::string number = FormatNumber(bar.value);
    const double above = Y(std::max(bar.value, high)) - 5;
    if (upright_) {
      absl::StrAppendFormat(&body_,
                            "<text class=\"value\" transform=\"translate(%.1f %.1f)rotate(-90)\">%s</text>\n",
                            middle + 4, above, number);
    } else {
      absl::StrAppendFormat(&body_, "<text class=\"value middle\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", middle,
                            above, number);
    }
  }

  const BarChart& chart_;
  const std::vector<std::string> series_;
  const double step_;
  const double top_;    // of the axis
  const bool upright_;  // numbers stand on end, as they are wider than their bars
  double plot_top_ = 0;
  std::string body_;
};

absl::StatusOr<Bar> BarOf(const json& object) {
  Bar bar;
  bar.label = object.at("label").get<std::string>();
  bar.value = object.at("value").get<double>();
  if (object.contains("min")) bar.min = object["min"].get<double>();
  if (object.contains("max")) bar.max = object["max"].get<double>();
  for (const double value : {bar.value, bar.min.value_or(0), bar.max.value_or(0)}) {
    if (std::isfinite(value) && value >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a chart's bar must not be negative, '", bar.label, "' is ", value));
  }
  return bar;
}

absl::StatusOr<BarChart> ChartOf(const json& object) {
  BarChart chart;
  chart.title = object.at("title").get<std::string>();
  chart.unit = object.at("unit").get<std::string>();
  for (const json& each : object.at("groups")) {
    BarGroup& group = chart.groups.emplace_back();
    group.label = each.at("label").get<std::string>();
    for (const json& bar : each.at("bars")) {
      QANAT_ASSIGN_OR_RETURN(group.bars.emplace_back(), BarOf(bar));
    }
    if (group.bars.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("group '", group.label, "' of a chart has no bar"));
    }
  }
  if (chart.groups.empty()) return absl::InvalidArgumentError("a chart has no group");
  if (SeriesOf(chart).size() > kColours.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a chart has at most ", kColours.size(), " series of bars"));
  }
  return chart;
}

}  // namespace

std::string FormatNumber(double value) {
  const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;
  std::string text = absl::StrFormat("%.*f", decimals, value);
  if (decimals > 0) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
  }
  for (auto i = static_cast<int64_t>(text.size()) - 3; i > 0; i -= 3) {
    text.insert(static_cast<size_t>(i), 1, ',');
  }
  return text;
}

absl::StatusOr<BarChart> ParseBarChart(std::string_view text) {
  try {
    return ChartOf(json::parse(text));
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("not a chart: ", error.what()));
  }
}

std::string RenderBarChart(const BarChart& chart) { return Drawing(chart).Draw(); }

}  // namespace qanat::tools
