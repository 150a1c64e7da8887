#include "common/metrics/catalogue.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace qanat::metrics {
namespace {

// name -> {type, labels, buckets, help} of the contract.
std::map<std::string, std::vector<std::string>> Contract() {
  std::ifstream file(QANAT_SOURCE_DIR "/tests/golden/contract/metrics.tsv");
  std::map<std::string, std::vector<std::string>> rows;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::vector<std::string> columns = absl::StrSplit(line, '\t');
    rows[columns.at(0)] = {columns.begin() + 1, columns.end()};
  }
  return rows;
}

std::string TypeName(Type type) {
  switch (type) {
    case Type::kCounter:
      return "counter";
    case Type::kGauge:
      return "gauge";
    case Type::kHistogram:
      return "histogram";
  }
  return "";
}

std::string BucketsName(Buckets buckets) {
  switch (buckets) {
    case Buckets::kNone:
      return "";
    case Buckets::kLatency:
      return "latency";
    case Buckets::kToken:
      return "token";
    case Buckets::kStep:
      return "step";
    case Buckets::kDecision:
      return "decision";
    case Buckets::kCount:
      return "count";
    case Buckets::kError:
      return "error";
  }
  return "";
}

bool IsProcessMetric(const Metric& metric) { return metric.name.substr(0, 8) == "process_"; }

TEST(CatalogueTest, EveryEntryIsARowOfTheContract) {
  const auto contract = Contract();
  ASSERT_GT(contract.size(), 60u);
  for (const Metric& metric : Catalogue()) {
    if (IsProcessMetric(metric)) continue;
    const auto row = contract.find(std::string(metric.name));
    ASSERT_NE(row, contract.end()) << metric.name;
    EXPECT_EQ(row->second, (std::vector<std::string>{TypeName(metric.type), std::string(metric.labels),
                                                     BucketsName(metric.buckets), std::string(metric.help)}))
        << metric.name;
  }
}

TEST(CatalogueTest, NamesAreUniqueAndOnlyCountersEndInTotal) {
  std::set<std::string_view> names;
  for (const Metric& metric : Catalogue()) {
    EXPECT_TRUE(names.insert(metric.name).second) << metric.name;
    const bool total = metric.name.size() > 6 && metric.name.substr(metric.name.size() - 6) == "_total";
    EXPECT_EQ(total, metric.type == Type::kCounter) << metric.name;
    EXPECT_EQ(metric.buckets != Buckets::kNone, metric.type == Type::kHistogram) << metric.name;
    EXPECT_EQ(&Find(metric.name), &metric);
  }
}

TEST(CatalogueTest, LabelNamesAreSplitAtCommas) {
  EXPECT_EQ(LabelNames(Find("qanat_worker_kv_blocks")), (std::vector<std::string>{"model", "state"}));
  EXPECT_TRUE(LabelNames(Find("process_open_fds")).empty());
}

TEST(CatalogueTest, BucketsAreTheSeriesTheyClaimToBe) {
  for (const Buckets buckets : {Buckets::kLatency, Buckets::kToken, Buckets::kStep, Buckets::kDecision,
                                Buckets::kCount, Buckets::kError}) {
    const std::vector<double> bounds = UpperBounds(buckets);
    ASSERT_GT(bounds.size(), 10u) << BucketsName(buckets);
    EXPECT_TRUE(std::is_sorted(bounds.begin(), bounds.end())) << BucketsName(buckets);
    EXPECT_EQ(std::set<double>(bounds.begin(), bounds.end()).size(), bounds.size()) << BucketsName(buckets);
  }
  EXPECT_DOUBLE_EQ(UpperBounds(Buckets::kLatency).front(), 0.001);
  EXPECT_DOUBLE_EQ(UpperBounds(Buckets::kLatency).back(), 2560);
  EXPECT_DOUBLE_EQ(UpperBounds(Buckets::kToken)[3], 0.004);
  EXPECT_DOUBLE_EQ(UpperBounds(Buckets::kToken).back(), 80);
  EXPECT_DOUBLE_EQ(UpperBounds(Buckets::kStep)[2], 16e-6);
  EXPECT_DOUBLE_EQ(UpperBounds(Buckets::kStep).back(), 16);
  EXPECT_EQ(UpperBounds(Buckets::kCount).size(), 18u);  // 1, 2, ... 131072, no odd end
  EXPECT_DOUBLE_EQ(UpperBounds(Buckets::kCount).back(), 131072);
  EXPECT_DOUBLE_EQ(UpperBounds(Buckets::kError).front(), -UpperBounds(Buckets::kError).back());
  EXPECT_TRUE(UpperBounds(Buckets::kNone).empty());
}

TEST(CatalogueDeathTest, UnknownNameIsABug) {
  EXPECT_DEATH(Find("qanat_worker_wishes_total"), "not in the catalogue");
}

}  // namespace
}  // namespace qanat::metrics
