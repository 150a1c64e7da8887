#include "tools/qanat/claims/report.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qanat::tools::claims {
namespace {

using testing::HasSubstr;

Figures Of(double tokens_per_second, double times) {
  return {.tokens_per_second = tokens_per_second,
          .busy = 0.5,
          .kv_use = 0.25,
          .saved = 0.125,
          .ttft_seconds = times,
          .tpot_seconds = times};
}

Report ThreeRounds() {
  Report report;
  report.device = "A device";
  Section& section = report.sections.emplace_back(Section{"equal lengths", "3 requests", {}});
  section.rows = {{"old", {Of(100, 2), Of(200, 2), Of(400, 2)}, {Of(110, -1), Of(110, -1), Of(110, -1)}},
                  {"new", {Of(300, 1), Of(400, 1), Of(440, 1)}, {Of(220, 1), Of(330, 1), Of(440, 1)}}};
  return report;
}

// Ratios of the rounds: 3, 2, 1.1.
TEST(ReportTest, PrintsTablesOfMedians) {
  EXPECT_EQ(ToMarkdown(ThreeRounds()),
            "A device:\n"
            "\n"
            "Equal lengths: 3 requests.\n"
            "\n"
            "| mode | tok/s | ratio | slots % | KV % | blocks saved % | TTFT s | TPOT ms |\n"
            "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
            "| old | 200 (110) | 1.00 (1.00) | 50 (50) | 25 (25) | 12.5 (12.5) | 2 | 2,000 |\n"
            "| new | 400 (330) | 2.00, 1.10 .. 3.00 (3.00) | 50 (50) | 25 (25) | 12.5 (12.5) | 1 (1) | "
            "1,000 (1,000) |\n");
}

TEST(ReportTest, TheRatioIsTheMedianOfTheRoundsRatios) {
  Report report = ThreeRounds();
  report.sections[0].rows[1].measured = {Of(300, 1), Of(220, 1), Of(440, 1)};  // 3, 1.1, 1.1; of medians 1.5
  EXPECT_THAT(ToMarkdown(report), HasSubstr("| 1.10, 1.10 .. 3.00 (3.00) |"));
}

TEST(ReportTest, JsonHasSpreadsAndForms) {
  const nlohmann::json json = ToJson(ThreeRounds());
  EXPECT_EQ(json["device"], "A device");
  const nlohmann::json& rows = json["sections"][0]["rows"];
  EXPECT_EQ(rows[1]["mode"], "new");
  EXPECT_EQ(rows[1]["tokens_per_second"],
            nlohmann::json({{"median", 400.0}, {"min", 300.0}, {"max", 440.0}, {"closed_form", 330.0}}));
  EXPECT_NEAR(rows[1]["ratio"]["min"].get<double>(), 1.1, 1e-9);
  EXPECT_NEAR(rows[1]["ratio"]["closed_form"].get<double>(), 3, 1e-9);
  EXPECT_FALSE(rows[0]["ttft_seconds"].contains("closed_form"));
}

TEST(ReportTest, ChartsSectionsOfEqualModes) {
  Report report = ThreeRounds();
  report.sections.push_back({"one mode", "", {report.sections[0].rows[0]}});
  const BarChart chart = ThroughputChart(report, "title");
  ASSERT_EQ(chart.groups.size(), 1u);
  EXPECT_EQ(chart.groups[0].label, "equal lengths");
  ASSERT_EQ(chart.groups[0].bars.size(), 2u);
  EXPECT_EQ(chart.groups[0].bars[1].value, 400);
  EXPECT_EQ(chart.groups[0].bars[1].min, 300);
  EXPECT_EQ(chart.groups[0].bars[1].max, 440);
}

}  // namespace
}  // namespace qanat::tools::claims
