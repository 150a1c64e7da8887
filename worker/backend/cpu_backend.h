// The CPU as a Backend.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/backend.h"

namespace qanat::backend {

struct CpuBackendOptions {
  // Compute threads, the caller's included; 0: min(cpuset, cpu quota).
  int threads = 0;
  // auto (the first that this CPU runs of the next three), avx512, avx2, scalar; reference (float32 weights
  // and float32 KV cache).
  std::string kernels = "auto";
  // Keys and values as float32, whatever the kernels; the reference's always are.
  bool float_cache = false;
  // Pin compute threads to the CPUs of the cpuset.
  bool pin = true;
};

// INVALID_ARGUMENT when no CPU has kernels of that name.
absl::Status CheckKernels(std::string_view name);

// INVALID_ARGUMENT for an unknown path; FAILED_PRECONDITION naming the missing instructions when this CPU
// lacks them. The calling thread becomes compute thread 0.
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const CpuBackendOptions& options);

}  // namespace qanat::backend
