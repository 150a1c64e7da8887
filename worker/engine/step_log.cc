#include "worker/engine/step_log.h"

#include <array>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/log.h"

namespace qanat::engine {
namespace {

constexpr std::string_view kHeader = "sequences,tokens,context_tokens,chunk_attention,seconds";

// Takes one number and the comma or end behind it from `line`.
template <typename T>
bool TakeNumber(std::string_view& line, T& value) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc() || !(value >= 0)) return false;
  line.remove_prefix(static_cast<size_t>(end - line.data()));
  if (line.empty()) return true;
  const bool comma = line.front() == ',';
  line.remove_prefix(1);
  return comma && !line.empty();
}

bool ParseStep(std::string_view line, MeasuredStep& step) {
  StepShape& shape = step.shape;
  for (int64_t* value : {&shape.sequences, &shape.tokens, &shape.context_tokens, &shape.chunk_attention}) {
    if (!TakeNumber(line, *value) || line.empty()) return false;
  }
  double seconds = 0;
  if (!TakeNumber(line, seconds) || !line.empty() || seconds > 1e6) return false;
  step.took = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds + 5e-10));
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepLog>> StepLog::Create(const std::string& path, EngineMetrics& next) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return absl::PermissionDeniedError(absl::StrCat(path, ": cannot be written"));
  std::setvbuf(file, nullptr, _IOLBF, BUFSIZ);
  absl::FPrintF(file, "%s\n", kHeader);
  return std::unique_ptr<StepLog>(new StepLog(path, file, next));
}

StepLog::~StepLog() {
  if (file_ != nullptr) std::fclose(file_);
}

void StepLog::OnStep(const StepStats& stats) {
  next_.OnStep(stats);
  if (file_ == nullptr) return;
  const StepShape& shape = stats.shape;
  const int written = absl::FPrintF(file_, "%d,%d,%d,%d,%.9f\n", shape.sequences, shape.tokens,
                                    shape.context_tokens, shape.chunk_attention, Seconds(stats.took));
  if (written > 0) return;
  spdlog::warn("{}: cannot be written: the log of steps ends here", path_);
  std::fclose(std::exchange(file_, nullptr));
}

absl::StatusOr<std::vector<MeasuredStep>> ReadStepLog(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  std::ostringstream contents;
  contents << file.rdbuf();
  const std::string text = contents.str();
  std::vector<MeasuredStep> steps;
  int number = 0;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const bool good = ++number == 1 ? line == kHeader : ParseStep(line, steps.emplace_back());
    if (good) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        path, ":", number, ": is no line of a step log; its columns are ", std::string(kHeader)));
  }
  if (number == 0)
    return absl::InvalidArgumentError(absl::StrCat(path, ": is no step log: it has no header"));
  return steps;
}

}  // namespace qanat::engine
