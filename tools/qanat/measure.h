// What measurements have in common.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/clock.h"

namespace qanat::tools {

// REQUIRES: values is not empty.
double Median(std::vector<double> values);
// The value that a part `q` of the values does not exceed. REQUIRES: values is not empty; 0 <= q <= 1.
double Quantile(std::vector<double> values, double q);

// How busy the machine is by itself: 0 where it does not tell.
double LoadAverage();
// Jiffies that the host took from this machine, over all CPUs.
int64_t StolenJiffies();
// CPU time of this process, all its threads, since it began.
Duration ProcessCpuTime();

}  // namespace qanat::tools
