// What one core of this machine can do, measured once: the denominators of the benchmark.
#pragma once

namespace qanat::kernels {

// int8 operations (multiplies and adds) a second with 512-bit vpdpbusd; with AVX-512 VNNI only, otherwise 0.
double DotPeak();

// Bytes a second of a sequential read of memory larger than the near caches.
double ReadPeak();

}  // namespace qanat::kernels
