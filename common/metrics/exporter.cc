#include "common/metrics/exporter.h"

#include <exception>
#include <map>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/version.h"
#include "common/metrics/catalogue.h"
#include "common/metrics/process_metrics.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/exposer.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"

namespace qanat::metrics {
namespace {

prometheus::Labels ToLabels(const Metric& metric, const LabelValues& values) {
  const std::vector<std::string> names = LabelNames(metric);
  QANAT_CHECK(names.size() == values.size()) << metric.name << " has " << names.size() << " labels";
  prometheus::Labels labels;
  for (size_t i = 0; i < names.size(); ++i) labels[names[i]] = values[i];
  return labels;
}

const Metric& FindOf(std::string_view name, Type type) {
  const Metric& metric = Find(name);
  QANAT_CHECK(metric.type == type) << name << " is of another type";
  return metric;
}

// Collects what the sources say, one family a name.
class Collected final : public Scrape {
 public:
  void Set(std::string_view name, const LabelValues& values, double value) override {
    const Metric& metric = Find(name);
    QANAT_CHECK(metric.type != Type::kHistogram) << name << " is a histogram";
    prometheus::MetricFamily& family = families_[name];
    family.name = std::string(name);
    family.help = std::string(metric.help);
    prometheus::ClientMetric& sample = family.metric.emplace_back();
    for (const auto& [label, text] : ToLabels(metric, values)) sample.label.push_back({label, text});
    if (metric.type == Type::kCounter) {
      family.type = prometheus::MetricType::Counter;
      sample.counter.value = value;
    } else {
      family.type = prometheus::MetricType::Gauge;
      sample.gauge.value = value;
    }
  }

  std::vector<prometheus::MetricFamily> Take() {
    std::vector<prometheus::MetricFamily> out;
    for (auto& [name, family] : families_) out.push_back(std::move(family));
    return out;
  }

 private:
  std::map<std::string_view, prometheus::MetricFamily> families_;  // keys live in the catalogue
};

class Sources final : public prometheus::Collectable {
 public:
  void Add(Exporter::Source source) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    sources_.push_back(std::move(source));
  }

  std::vector<prometheus::MetricFamily> Collect() const override EXCLUDES(mu_) {
    std::vector<Exporter::Source> sources;
    {
      MutexLock lock(mu_);
      sources = sources_;
    }
    Collected collected;
    for (const Exporter::Source& source : sources) source(collected);
    return collected.Take();
  }

 private:
  mutable Mutex mu_;
  std::vector<Exporter::Source> sources_ GUARDED_BY(mu_);
};

}  // namespace

struct Exporter::Impl {
  // Shared, because the exposer holds what it serves by weak pointers.
  std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();
  std::shared_ptr<Sources> sources = std::make_shared<Sources>();
  std::optional<prometheus::Exposer> exposer;  // last: closed first
};

void Counter::Add(double amount) { counter_->Increment(amount); }
void Gauge::Set(double value) { gauge_->Set(value); }
void Gauge::Add(double amount) { gauge_->Increment(amount); }
void Histogram::Observe(double value) { histogram_->Observe(value); }

Exporter::Exporter() : impl_(std::make_unique<Impl>()) {}
Exporter::~Exporter() = default;

Counter Exporter::GetCounter(std::string_view name, const LabelValues& labels) {
  const Metric& metric = FindOf(name, Type::kCounter);
  return Counter(prometheus::BuildCounter()
                     .Name(std::string(name))
                     .Help(std::string(metric.help))
                     .Register(*impl_->registry)
                     .Add(ToLabels(metric, labels)));
}

Gauge Exporter::GetGauge(std::string_view name, const LabelValues& labels) {
  const Metric& metric = FindOf(name, Type::kGauge);
  return Gauge(prometheus::BuildGauge()
                   .Name(std::string(name))
                   .Help(std::string(metric.help))
                   .Register(*impl_->registry)
                   .Add(ToLabels(metric, labels)));
}

Histogram Exporter::GetHistogram(std::string_view name, const LabelValues& labels) {
  const Metric& metric = FindOf(name, Type::kHistogram);
  return Histogram(prometheus::BuildHistogram()
                       .Name(std::string(name))
                       .Help(std::string(metric.help))
                       .Register(*impl_->registry)
                       .Add(ToLabels(metric, labels), UpperBounds(metric.buckets)));
}

void Exporter::AddSource(Source source) { impl_->sources->Add(std::move(source)); }

void Exporter::AddProcessMetrics(std::string_view component) {
  GetGauge("qanat_build_info",
           {std::string(component), std::string(Version()), std::string(Revision()), std::string(Compiler())})
      .Set(1);
  AddSource(ReadProcessMetrics);
}

absl::StatusOr<std::string> Exporter::Listen(const std::string& address) {
  try {
    impl_->exposer.emplace(address, /*num_threads=*/2);
  } catch (const std::exception&) {  // prometheus-cpp's own way to say that it cannot bind
    return absl::UnavailableError(
        absl::StrCat("cannot listen on '", address,
                     "' for metrics: the address is malformed, not this machine's, or taken"));
  }
  impl_->exposer->RegisterCollectable(impl_->registry);
  impl_->exposer->RegisterCollectable(impl_->sources);
  return absl::StrCat(address.substr(0, address.rfind(':')), ":",
                      impl_->exposer->GetListeningPorts().front());
}

void Exporter::Close() { impl_->exposer.reset(); }

std::string Exporter::Text() const {
  std::vector<prometheus::MetricFamily> families = impl_->registry->Collect();
  for (prometheus::MetricFamily& family : impl_->sources->Collect()) families.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace qanat::metrics
