// Every metric, once: name, type, labels, buckets, help. To add a metric, add an entry to catalogue.cc.
//
// Names are qanat_<component>_<what>_<unit>[_total] in base units; labels are bounded sets, never a request
// or anything a caller chose. tests/common/metrics compares the entries with the contract's metrics.tsv.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace qanat::metrics {

enum class Type { kCounter, kGauge, kHistogram };

// The upper bounds of a histogram, each a geometric series.
enum class Buckets {
  kNone,
  kLatency,   // .001 * 2^k to 2560 seconds
  kToken,     // .0005 * 2^k to 80 seconds
  kStep,      // 1e-6 * 4^k to 16 seconds
  kDecision,  // as kStep
  kCount,     // 2^k to 131072
  kError,     // -+ .001 * 4^k seconds, to 262
};

struct Metric {
  std::string_view name;
  Type type;
  std::string_view labels;  // names, separated by commas
  Buckets buckets;
  std::string_view help;
};

absl::Span<const Metric> Catalogue();

// REQUIRES: the catalogue has `name`.
const Metric& Find(std::string_view name);

// The names in `metric.labels`.
std::vector<std::string> LabelNames(const Metric& metric);

// Ascending; the last one is the series' end. Empty for kNone.
std::vector<double> UpperBounds(Buckets buckets);

}  // namespace qanat::metrics
