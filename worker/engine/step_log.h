// Steps that ran, as a file: recorded by workers and benchmarks, read by `qanat bench fit`.
//
// CSV. The first line names the columns, every other one is a step:
//   sequences,tokens,context_tokens,chunk_attention,seconds
//   16,16,2128,0,0.008312541
// The first four are StepShape's; `seconds` is what the step took, from the inbox to the commit.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/step_model.h"
#include "worker/engine/engine_metrics.h"

namespace qanat::engine {

struct MeasuredStep {
  StepShape shape;
  Duration took{};
  bool operator==(const MeasuredStep&) const = default;
};

// What: writes each step to a file and passes everything on to `next`, which outlives it. A line is in the
// file before the next step begins, so that the log of a process that ends in a step that hangs lacks none.
// Threads: the engine thread. Errors: a full disk ends the log with a warning, not the engine.
class StepLog final : public EngineMetrics {
 public:
  // Begins the file anew. PERMISSION_DENIED when it cannot be written.
  static absl::StatusOr<std::unique_ptr<StepLog>> Create(const std::string& path, EngineMetrics& next);
  ~StepLog() override;
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;

  void OnStep(const StepStats& stats) override;
  void OnInterToken(Duration gap) override { next_.OnInterToken(gap); }
  void OnEnd(const Outcome& outcome, Duration total) override { next_.OnEnd(outcome, total); }

 private:
  StepLog(std::string path, std::FILE* file, EngineMetrics& next)
      : path_(std::move(path)), file_(file), next_(next) {}

  const std::string path_;
  std::FILE* file_;  // null once writing has failed
  EngineMetrics& next_;
};

// The steps of a log, in its order. NOT_FOUND when it cannot be read; INVALID_ARGUMENT, naming file and line,
// for anything but what StepLog writes. A last line without its end, of a process that was killed, is left
// out.
absl::StatusOr<std::vector<MeasuredStep>> ReadStepLog(const std::string& path);

}  // namespace qanat::engine
