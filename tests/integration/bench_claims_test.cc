// `qanat bench claims`, as people run it, on the simulated device.
#include <fstream>
#include <iterator>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/temporary_file.h"
#include "tests/integration/cluster.h"

namespace qanat::integration {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

Outcome Claims(const Flags& flags) {
  Flags command = {Program("qanat"), "bench", "claims", "--quick"};
  command.insert(command.end(), flags.begin(), flags.end());
  return RunToEnd(command);
}

TEST(BenchClaimsTest, PrintsTablesAndWritesFigures) {
  const fakes::TemporaryFile file("");
  const Outcome outcome =
      Claims({"--device=sim", "--only", "exponential outputs, roomy", "--out", file.path()});
  ASSERT_EQ(outcome.exit, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("| mode | tok/s | ratio |"));
  EXPECT_THAT(outcome.output, HasSubstr("\n| continuous, paged, prefixes | "));
  std::ifstream stream(file.path());
  const json all = json::parse(std::string{std::istreambuf_iterator<char>(stream), {}}, nullptr, false);
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(all[0]["sections"].size(), 1u);
  const json& rows = all[0]["sections"][0]["rows"];
  ASSERT_EQ(rows.size(), 5u);
  for (const json& row : rows) {
    SCOPED_TRACE(row["mode"]);
    const double seen = row["tokens_per_second"]["median"];
    EXPECT_NEAR(seen / row["tokens_per_second"]["closed_form"].get<double>(), 1, 0.15);
  }
  EXPECT_GT(rows[2]["ratio"]["median"], 2.5);
}

TEST(BenchClaimsTest, PrintsAsJsonWhatItWrites) {
  const fakes::TemporaryFile file("");
  const Outcome outcome =
      Claims({"--device=sim", "--only", "constant outputs, tight", "--json", "--out", file.path()});
  ASSERT_EQ(outcome.exit, 0) << outcome.errors;
  std::ifstream stream(file.path());
  const std::string written{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_EQ(outcome.output, written);
  EXPECT_EQ(json::parse(written, nullptr, false).size(), 1u);
}

TEST(BenchClaimsTest, SaysWhatIsWrongWithTheCommandLineBeforeItRuns) {
  const struct {
    Flags flags;
    const char* named;
  } cases[] = {
      {{"--device=sim", "--only", "nothing like it"}, "--only"},
      {{"--device=sim", "--out", "/nowhere/at/all"}, "--out"},
      {{"--device=sim", "--svg", "/nowhere/at/all"}, "--svg"},
      {{"--device=sim", "--cpu-time", "--threads=2"}, "--cpu-time"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.named);
    const Outcome outcome = Claims(one.flags);
    EXPECT_EQ(outcome.exit, 2);
    EXPECT_THAT(outcome.output, IsEmpty());
    EXPECT_THAT(outcome.errors, HasSubstr(one.named));
  }
}

}  // namespace
}  // namespace qanat::integration
