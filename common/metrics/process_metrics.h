// The usual process_* metrics, read from /proc.
#pragma once

#include "common/metrics/exporter.h"

namespace qanat::metrics {

// A source for Exporter::AddSource. What cannot be read is left out.
void ReadProcessMetrics(Scrape& scrape);

}  // namespace qanat::metrics
