// Metrics of the catalogue, counted here and shown to Prometheus. The only user of prometheus-cpp.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace qanat::metrics {

// Handles: cheap to copy, valid as long as their Exporter. Any thread.
class Counter {
 public:
  explicit Counter(prometheus::Counter& counter) : counter_(&counter) {}
  void Add(double amount = 1);  // REQUIRES: amount >= 0

 private:
  prometheus::Counter* counter_;
};

class Gauge {
 public:
  explicit Gauge(prometheus::Gauge& gauge) : gauge_(&gauge) {}
  void Set(double value);
  void Add(double amount);

 private:
  prometheus::Gauge* gauge_;
};

class Histogram {
 public:
  explicit Histogram(prometheus::Histogram& histogram) : histogram_(&histogram) {}
  void Observe(double value);

 private:
  prometheus::Histogram* histogram_;
};

using LabelValues = std::vector<std::string>;  // in the order of the catalogue's names

// The values of one scrape that are read where they live instead of being kept up to date.
class Scrape {
 public:
  virtual ~Scrape() = default;
  // REQUIRES: a counter or a gauge of the catalogue; as many labels as it has.
  virtual void Set(std::string_view name, const LabelValues& labels, double value) = 0;
};

// What: the metrics of one process. Owns all of them and the HTTP endpoint; outlives its handles and whatever
// reports to it. A metric shows from its first Get on, at 0: get it before traffic.
// Threads: any. Errors: a name that is not in the catalogue, or labels that do not fit, are bugs (CHECK).
class Exporter {
 public:
  Exporter();
  ~Exporter();  // closes the endpoint, then drops the metrics
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  // The series with these label values, made when it is first asked for.
  Counter GetCounter(std::string_view name, const LabelValues& labels = {});
  Gauge GetGauge(std::string_view name, const LabelValues& labels = {});
  Histogram GetHistogram(std::string_view name, const LabelValues& labels = {});

  // Runs `source` at each scrape, on the scraping thread; what it reads outlives the exporter, or Close().
  using Source = std::function<void(Scrape&)>;
  void AddSource(Source source);

  // qanat_build_info and process_*.
  void AddProcessMetrics(std::string_view component);

  // Serves GET /metrics; port 0 picks one. The address with the port that was chosen. UNAVAILABLE when it
  // cannot listen there. Plain HTTP: its port is for the cluster's inside.
  absl::StatusOr<std::string> Listen(const std::string& address);

  // Ends the endpoint: no source runs after it returns.
  void Close();

  // What a scrape would answer.
  std::string Text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qanat::metrics
