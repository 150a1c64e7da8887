#include "tools/qanat/chart.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qanat::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ChartTest, NumbersAreShortAndReadable) {
  EXPECT_EQ(FormatNumber(0), "0");
  EXPECT_EQ(FormatNumber(0.15), "0.15");
  EXPECT_EQ(FormatNumber(2.5), "2.5");
  EXPECT_EQ(FormatNumber(3.381), "3.38");
  EXPECT_EQ(FormatNumber(42.04), "42");
  EXPECT_EQ(FormatNumber(419.3), "419");
  EXPECT_EQ(FormatNumber(2418), "2,418");
  EXPECT_EQ(FormatNumber(1234567), "1,234,567");
}

TEST(ChartTest, DrawsEachBarWithItsNumberAndTheLegendOnce) {
  const auto chart = ParseBarChart(R"({"title": "A < B & C", "unit": "tok/s", "groups": [
      {"label": "decode", "bars": [{"label": "one", "value": 100, "min": 90, "max": 120},
                                   {"label": "two", "value": 250}]},
      {"label": "prefill", "bars": [{"label": "one", "value": 2500}]}]})");
  ASSERT_TRUE(chart.ok()) << chart.status();
  const std::string svg = RenderBarChart(*chart);
  EXPECT_THAT(svg, HasSubstr("A &lt; B &amp; C"));
  EXPECT_THAT(svg, Not(HasSubstr("A < B")));
  for (const char* text : {">100<", ">250<", ">2,500<", ">decode<", ">prefill<", ">tok/s<"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_EQ(Count(svg, "rx=\"2\""), 2) << "two series in the legend";
  EXPECT_EQ(Count(svg, "<path class=\"whisker\""), 1) << "one bar knows its spread";
  EXPECT_EQ(Count(svg, "<rect"), 2 + 3);
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_EQ(RenderBarChart(*chart), svg);
}

TEST(ChartTest, HeightsAreInProportion) {
  const std::string svg = RenderBarChart(
      {"t", "u", {{"g", {{"a", 30, std::nullopt, std::nullopt}, {"b", 60, std::nullopt, std::nullopt}}}}});
  EXPECT_THAT(svg, HasSubstr("height=\"130.0\""));
  EXPECT_THAT(svg, HasSubstr("height=\"260.0\""));
}

TEST(ChartTest, NumbersStandOnEndWhereBarsAreNarrow) {
  BarChart chart = {"t", "u", {{"g", {{"a", 12345, std::nullopt, std::nullopt}}}}};
  EXPECT_THAT(RenderBarChart(chart), Not(HasSubstr("rotate")));
  chart.groups.resize(30, chart.groups[0]);
  EXPECT_EQ(Count(RenderBarChart(chart), "rotate(-90)\">12,345<"), 30);
}

TEST(ChartTest, RefusesWhatIsNoChart) {
  const std::string series = [] {
    std::string bars;
    for (int i = 0; i < 9; ++i) {
      bars += (i > 0 ? ", " : "") + std::string(R"({"label": ")") + std::to_string(i) + R"(", "value": 1})";
    }
    return R"({"title": "t", "unit": "u", "groups": [{"label": "g", "bars": [)" + bars + "]}]}";
  }();
  for (
      const std::string& text :
      {std::string("no"), std::string("{}"), std::string(R"({"title": "t", "unit": "u", "groups": []})"),
       std::string(R"({"title": "t", "unit": "u", "groups": [{"label": "g", "bars": []}]})"),
       std::string(
           R"({"title": "t", "unit": "u", "groups": [{"label": "g", "bars": [{"label": "b", "value": -1}]}]})"),
       series}) {
    EXPECT_EQ(ParseBarChart(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace qanat::tools
