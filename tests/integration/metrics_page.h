// What a program tells Prometheus.
#pragma once

#include <map>
#include <string>

namespace qanat::integration {

// What: one scrape. Owns its values. Threads: immutable. Errors: a page that cannot be had is empty.
class MetricsPage {
 public:
  // GET http://ADDRESS/metrics.
  static MetricsPage Scrape(const std::string& address);

  // The value of a series as the page writes it, labels in the order of their names; `missing` when it is not
  // there.
  double Value(const std::string& series, double missing = -1) const;
  // The sum over all series of the metric whose labels hold `labels` ("" for all).
  double Sum(const std::string& metric, const std::string& labels = "") const;
  // Some series of the metric is there (a histogram shows as its _count).
  bool Has(const std::string& metric) const;
  bool empty() const { return values_.empty(); }

 private:
  std::map<std::string, double> values_;  // by series
};

}  // namespace qanat::integration
